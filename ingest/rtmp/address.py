"""Parses the address that an encoder sends into application and publish name.

Encoders split an address differently. "rtmp://host/live" with a separate key gives the application
"live" and the name "<key>"; "rtmp://host/live/<key>" without one gives "live/<key>" and an empty
name with some encoders, "live" and "<key>" with others. Any of the three may have a query,
which is ignored.

Some write more around the key: white space that was copied with it, the percent-encoding of a URL
("%5F"), the instance of an application that Flash Media Server calls "_definst_", and the prefix
by which it knows a file's format ("mp4:").
"""

import re
from typing import Final
from urllib.parse import unquote

from ingest.rtmp.errors import AddressRefused
from ingest.rtmp.events import PublishRequested
from ingest.rtmp.limits import Limits

_DEFAULT_INSTANCE: Final = "_definst_"
_FORMAT: Final = re.compile("^(?:mp4|flv):", re.IGNORECASE)  # a key has no colon


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
    application, *tail = _parts(app) or [""]
    names = _parts(name)
    _bound("the application", application, limits.application_bytes)
    keys = {_FORMAT.sub("", parts[-1]) for parts in (tail, names) if parts} - {""}
    if not keys:
        raise AddressRefused("a publish without a stream key")
    if len(keys) > 1:
        raise AddressRefused("the address and the stream key name different streams")
    (key,) = keys
    _bound("the stream key", key, limits.name_bytes)
    return PublishRequested(application=application, name=key)


def _parts(path: str) -> list[str]:
    """Return the parts of a path, decoded; `_definst_` names nothing."""
    parts = [unquote(part).strip() for part in path.split("/")]
    return [part for part in parts if part not in ("", _DEFAULT_INSTANCE)]


def _bound(what: str, text: str, limit: int) -> None:
    if len(text.encode()) > limit:
        raise AddressRefused(f"{what} has more than {limit} bytes")
