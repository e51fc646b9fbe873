"""The settings of `headend backup` and `headend restore`."""

from typing import Annotated

from headend.config.section import Section
from media.setting import describe


class BackupSettings(Section, frozen=True, kw_only=True):
    """Backups."""

    to: Annotated[
        str,
        describe(
            "folder on another disk, or s3://BUCKET/PREFIX, for backups; empty: `headend backup`"
            " must be told"
        ),
    ] = ""
    endpoint: Annotated[
        str, describe("https://HOST of the S3 server with the backups; empty: Amazon's")
    ] = ""
    region: Annotated[
        str, describe("region of the bucket with the backups; empty: AWS_REGION, or us-east-1")
    ] = ""
    # With a backup a night: any day of the last week, then ever fewer, for what is noticed late.
    keep_daily: Annotated[
        int, describe("the newest backup of so many days is kept", ge=0, le=3650)
    ] = 7
    keep_weekly: Annotated[
        int, describe("the newest backup of so many weeks is kept", ge=0, le=520)
    ] = 4
    keep_monthly: Annotated[
        int,
        describe(
            "the newest backup of so many months is kept; all three 0: every backup", ge=0, le=120
        ),
    ] = 6
