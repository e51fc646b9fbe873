"""Which stream a peer means: application, publish name and queries out of what encoders send.

Encoders split an address in their own ways. "rtmp://host/live" with the key apart gives the
application "live" and the name "<key>"; "rtmp://host/live/<key>" without one gives "live/<key>" and
an empty name with some, "live" and "<key>" with others; a query may stand behind any of the three.
"""

from urllib.parse import parse_qsl

import msgspec

from ingest.rtmp.errors import AddressRefused
from ingest.rtmp.limits import Limits

__all__ = ["Address", "address_of"]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a peer wants to publish; see `events.PublishAsked`. Name and query are secret."""

    application: str
    name: str
    query: dict[str, str]
    host: str

    def __repr__(self) -> str:
        return f"Address(application={self.application!r}, name=..., host={self.host!r})"

    __str__ = __repr__


def address_of(app: str, tc_url: str, name: str, limits: Limits) -> Address:
    """Join what `connect` (app, tcUrl) and `publish` (name) said.

    Raises:
        AddressRefused: there is no name, the application's tail and the name disagree, or a part is
            too long.
    """
    _bound("the address", tc_url, limits.address_bytes)
    app, _, app_query = app.partition("?")
    tc_url, _, url_query = tc_url.partition("?")
    name, _, name_query = name.partition("?")
    queries = [query for query in (app_query, url_query, name_query) if query]
    _bound("the query", "&".join(dict.fromkeys(queries)), limits.query_bytes)
    application, *tail = [part for part in app.split("/") if part] or [""]
    names = [part for part in name.split("/") if part]
    _bound("the application", application, limits.application_bytes)
    found = {parts[-1] for parts in (tail, names) if parts}
    if not found:
        raise AddressRefused("a publish without a stream key")
    if len(found) > 1:
        raise AddressRefused("the address and the stream key name different streams")
    (key,) = found
    _bound("the stream key", key, limits.name_bytes)
    return Address(
        application=application,
        name=key,
        query=dict(pair for query in queries for pair in parse_qsl(query, keep_blank_values=True)),
        host=_host(tc_url),
    )


def _bound(what: str, text: str, limit: int) -> None:
    if len(text.encode()) > limit:
        raise AddressRefused(f"{what} has more than {limit} bytes")


def _host(tc_url: str) -> str:
    """Return the host of "rtmp://host:port/app", without port or brackets."""
    place = tc_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]
