"""A small country database in MaxMind's format, over the address ranges for documentation."""

from pathlib import Path

from mmdb_writer import MMDBWriter
from netaddr import IPSet

ROMANIAN = "203.0.113.7"
GERMAN = "198.51.100.7"
FRENCH = "192.0.2.7"
SIXTH = "2001:db8:1::7"  # Romanian too
NOWHERE = "9.9.9.9"  # in no network of the database


def countries(path: Path, german: str = "DE", here: str | None = None) -> Path:
    """Write the database, each network with a different record layout.

    `german` is the country of the German network; `here` is that of the loopback addresses, if
    they have one.
    """
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="Test-Country")
    writer.insert_network(IPSet(["203.0.113.0/24"]), {"country": {"iso_code": "RO"}})
    writer.insert_network(IPSet(["198.51.100.0/24"]), {"country_code": german})
    writer.insert_network(IPSet(["192.0.2.0/24"]), {"country": "fr"})
    writer.insert_network(IPSet(["2001:db8:1::/48"]), {"country": {"iso_code": "RO"}})
    if here is not None:
        writer.insert_network(IPSet(["127.0.0.0/8"]), {"country": {"iso_code": here}})
    new = path.with_suffix(".new")
    writer.to_db_file(str(new))
    return new.replace(path)
