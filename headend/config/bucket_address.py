"""Whether settings name a bucket of S3 in a way that can be understood."""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["bucket_errors"]

# Names as S3 allows them ("General purpose bucket naming rules"), prefixes of plain ones.
_URL: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[0-9A-Za-z_][0-9A-Za-z_.-]*)*/?")
_ENDPOINT: Final = re.compile(r"https?://[^/?#@\s]+")


def bucket_errors(url: str, endpoint: str) -> Mapping[str, ValueError]:
    """Return what is wrong with the address of a bucket and of its server, by setting name."""
    wrong: dict[str, ValueError] = {}
    if url and not _URL.fullmatch(url):
        wrong["storage.url"] = ValueError("Expected s3://BUCKET or s3://BUCKET/PREFIX")
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        wrong["storage.endpoint"] = ValueError("Expected https://HOST or http://HOST:PORT")
    return wrong
