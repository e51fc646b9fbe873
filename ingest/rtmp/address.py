"""Parses the address that an encoder sends into application and publish name.

Encoders split an address differently. "rtmp://host/live" with a separate key gives the application
"live" and the name "<key>"; "rtmp://host/live/<key>" without one gives "live/<key>" and an empty
name with some encoders, "live" and "<key>" with others. Any of the three may have a query,
which is ignored.
"""

from ingest.rtmp.errors import AddressRefused
from ingest.rtmp.events import PublishRequested
from ingest.rtmp.limits import Limits

__all__ = ["address_of"]


def address_of(app: str, tc_url: str, name: str, limits: Limits) -> PublishRequested:
    """Combine the fields of `connect` (app, tcUrl) and `publish` (name).

    Raises:
        AddressRefused: the name is missing, the application's tail and the name differ, or a part
            is too long.
    """
    _bound("the address", tc_url, limits.address_bytes)
    app, _, app_query = app.partition("?")
    url_query = tc_url.partition("?")[2]
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
    return PublishRequested(application=application, name=key)


def _bound(what: str, text: str, limit: int) -> None:
    if len(text.encode()) > limit:
        raise AddressRefused(f"{what} has more than {limit} bytes")
