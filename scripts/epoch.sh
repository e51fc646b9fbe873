# To be read with `.`: the time that built files carry, which is that of the commit.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    # Out of an archive of the sources: the date that hatchling takes, too.
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)
fi
export SOURCE_DATE_EPOCH
