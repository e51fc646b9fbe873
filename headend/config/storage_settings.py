"""The settings of the media's storage, and how viewers get media out of a bucket."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from headend.config.section import Section
from media.setting import describe

# Names as S3 allows them ("General purpose bucket naming rules"), prefixes of plain ones.
_URL: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[0-9A-Za-z_][0-9A-Za-z_.-]*)*/?")
_ENDPOINT: Final = re.compile(r"https?://[^/?#@\s]+")
_CDN: Final = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?")


class StorageSettings(Section, frozen=True, kw_only=True):
    """Storage of media."""

    url: Annotated[
        str,
        describe("s3://BUCKET/PREFIX keeps media in a bucket; empty: in the data folder"),
    ] = ""
    endpoint: Annotated[str, describe("https://HOST of an S3 server; empty: Amazon's")] = ""
    region: Annotated[str, describe("region of the bucket; empty: AWS_REGION, or us-east-1")] = ""
    delivery: Annotated[
        Literal["proxy", "redirect", "cdn"],
        describe(
            "how viewers get media out of a bucket. `proxy`: from Headend; `redirect`: from the"
            " bucket, by signed addresses; `cdn`: from storage.cdn_url, unless access is"
            " restricted"
        ),
    ] = "proxy"
    signed_seconds: Annotated[
        float,
        describe(
            "a signed address is valid for",
            unit="s",
            reason="a player follows it at once; a copy stops working after this time",
            ge=10,
            le=3600,
        ),
    ] = 60.0
    public_endpoint: Annotated[
        str,
        describe("https://HOST of the S3 server in signed addresses; empty: storage.endpoint"),
    ] = ""
    cdn_url: Annotated[
        str,
        describe("base URL of a CDN that has the folder cdn of storage.url below it"),
    ] = ""
    cache_bytes: Annotated[
        int,
        describe(
            "copies of what viewers read from a bucket; as much again for transcoding",
            unit="bytes",
            ge=0,
        ),
    ] = 4 << 30
    min_free_bytes: Annotated[
        int,
        describe(
            "with less free space the service is not ready",
            unit="bytes",
            ge=0,
        ),
    ] = 1 << 30
    # A week: time to notice that a restored database is too old, also after a long weekend.
    trash_days: Annotated[
        int,
        describe(
            "orphaned and expired files stay in the trash for this long; 0: an hour at most",
            unit="days",
            ge=0,
            le=3650,
        ),
    ] = 7

    def errors(self) -> Mapping[str, ValueError]:
        """Return what is wrong with the place of the media, by setting name."""
        return {
            **bucket_errors(self.url, self.endpoint),
            **delivery_errors(self.url, self.delivery, self.public_endpoint, self.cdn_url),
        }


def bucket_errors(url: str, endpoint: str) -> Mapping[str, ValueError]:
    """Return what is wrong with the address of a bucket and of its server, by setting name."""
    wrong: dict[str, ValueError] = {}
    if url and not _URL.fullmatch(url):
        wrong["storage.url"] = ValueError("Expected s3://BUCKET or s3://BUCKET/PREFIX")
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        wrong["storage.endpoint"] = ValueError("Expected https://HOST or http://HOST:PORT")
    return wrong


def delivery_errors(
    url: str, delivery: str, public_endpoint: str, cdn_url: str
) -> Mapping[str, ValueError]:
    """Return what is wrong with how viewers get media out of a bucket, by setting name."""
    wrong: dict[str, ValueError] = {}
    if public_endpoint and not _ENDPOINT.fullmatch(public_endpoint):
        wrong["storage.public_endpoint"] = ValueError("Expected https://HOST or http://HOST:PORT")
    if cdn_url and not _CDN.fullmatch(cdn_url):
        wrong["storage.cdn_url"] = ValueError("Expected https://HOST or https://HOST/PATH")
    if delivery != "proxy" and not url:
        wrong["storage.delivery"] = ValueError(f"Expected storage.url to be set for {delivery}")
    elif delivery == "cdn" and not cdn_url:
        wrong["storage.delivery"] = ValueError("Expected storage.cdn_url to be set for cdn")
    return wrong
