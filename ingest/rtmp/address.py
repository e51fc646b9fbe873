"""Parses the address that an encoder sends into application, publish name and query.

Encoders split an address differently. "rtmp://host/live" with a separate key gives the application
"live" and the name "<key>"; "rtmp://host/live/<key>" without one gives "live/<key>" and an empty
name with some encoders, "live" and "<key>" with others. Any of the three may have a query.
"""

from urllib.parse import parse_qsl

import msgspec

from ingest.rtmp.errors import AddressRefused
from ingest.rtmp.limits import Limits

__all__ = ["Address", "address_of"]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a publish request; see `events.PublishRequested`. Name and query are secret."""

    application: str
    name: str
    query: dict[str, str]
    host: str

    def __repr__(self) -> str:
        return f"Address(application={self.application!r}, name=..., host={self.host!r})"

    __str__ = __repr__


def address_of(app: str, tc_url: str, name: str, limits: Limits) -> Address:
    """Combine the fields of `connect` (app, tcUrl) and `publish` (name).

    Raises:
        AddressRefused: the name is missing, the application's tail and the name differ, or a part
            is too long.
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
    keys = {parts[-1] for parts in (tail, names) if parts}
    if not keys:
        raise AddressRefused("a publish without a stream key")
    if len(keys) > 1:
        raise AddressRefused("the address and the stream key name different streams")
    (key,) = keys
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
    authority = tc_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]
