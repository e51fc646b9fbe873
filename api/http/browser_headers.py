"""What browsers are told: which origins may read an answer, and that it is no page.

A project lists the origins whose pages may upload; all other paths of the API are closed to pages
of other origins (CORS), which only permits the origin: the token or the upload link is still
required. The same hook adds the tus headers of each response. An answer that is opened as a page,
such as JSON or uploaded media, may load nothing and run nothing; only media may be framed. Pages
have policies of their own. Source: Fetch standard, sections 3.3 (HTTP extensions) and 3.6
(`nosniff`); CSP Level 3; tus 1.0, "Headers".
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.types import Message, Scope

from api.http.tus import ALGORITHMS, EXTENSIONS, VERSION
from storage.catalog import Catalog
from storage.catalog.records.uploads import LinkRecord
from storage.errors import StorageError

MAX_ORIGINS: Final = 50
_ALL: Final = "*"
_ORIGIN: Final = re.compile(
    r"[a-z][a-z0-9+.-]{0,30}://(\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253})(:\d{1,5})?"
)
_PROJECT: Final = "/api/projects/{project_id}/uploads"
_LINK: Final = "/api/upload-links/{link_secret}"
_TEMPLATES: Final = frozenset(
    {_PROJECT, f"{_PROJECT}/{{upload_name}}", _LINK, f"{_LINK}/{{upload_name}}"}
)
# Twenty minutes: a page that uploads in pieces sends one preflight.
_MAX_AGE: Final = "1200"
_METHODS: Final = "DELETE, GET, HEAD, OPTIONS, PATCH, POST"
_ALLOWED_HEADERS: Final = ", ".join(
    (
        "Authorization",
        "Content-Type",
        "Tus-Resumable",
        "Upload-Checksum",
        "Upload-Defer-Length",
        "Upload-Length",
        "Upload-Metadata",
        "Upload-Offset",
        "X-HTTP-Method-Override",
        "X-Request-ID",
        "X-Requested-With",
    )
)
_EXPOSED_HEADERS: Final = ", ".join(
    (
        "Headend-Video-Hash",
        "Headend-Video-Id",
        "Location",
        "Retry-After",
        "Tus-Checksum-Algorithm",
        "Tus-Extension",
        "Tus-Max-Size",
        "Tus-Resumable",
        "Tus-Version",
        "Upload-Defer-Length",
        "Upload-Expires",
        "Upload-Length",
        "Upload-Metadata",
        "Upload-Offset",
    )
)


def origins_error(texts: Sequence[str]) -> str | None:
    """Return what is wrong with a list of origins, or None."""
    if len(texts) > MAX_ORIGINS:
        return f"There may be at most {MAX_ORIGINS} origins."
    for text in texts:
        if text != _ALL and not _ORIGIN.fullmatch(text.lower()):
            return f"{text[:80]!r} is no origin such as https://app.example, nor *."
    return None


def normalize_origins(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the origins in lower case, as browsers send them, without duplicates."""
    return tuple(dict.fromkeys(text.lower() for text in texts))


def is_upload_options(scope: Scope) -> bool:
    """Return True for OPTIONS on an upload path, which browsers send without a token."""
    return scope["type"] == "http" and scope["method"] == "OPTIONS" and _is_upload(scope)


def _is_upload(scope: Scope) -> bool:
    values = cast("Mapping[str, object]", scope)  # unrouted requests have no template
    return values.get("path_template") in _TEMPLATES


def cors_hook(catalog: Catalog, most: int) -> Callable[[Message, Scope], Awaitable[None]]:
    """Return a `before_send` hook that adds CORS and tus headers on upload paths.

    `most` is the maximum size of an upload in bytes.
    """

    async def complete(message: Message, scope: Scope) -> None:
        if message["type"] != "http.response.start" or scope["type"] != "http":
            return
        if not _is_upload(scope):
            return
        headers = MutableScopeHeaders.from_message(message)
        headers["Tus-Resumable"] = VERSION
        if scope["method"] == "OPTIONS":
            headers["Tus-Version"] = VERSION
            headers["Tus-Extension"] = EXTENSIONS
            headers["Tus-Checksum-Algorithm"] = ",".join(ALGORITHMS)
            headers["Tus-Max-Size"] = str(most)
        request_headers = Headers.from_scope(scope)
        origin = request_headers.get("origin")
        headers["Vary"] = "Origin"
        if origin is None or not _admits(await _origins(catalog, scope), origin):
            return
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
        if scope["method"] == "OPTIONS" and "access-control-request-method" in request_headers:
            headers["Access-Control-Allow-Methods"] = _METHODS
            headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
            headers["Access-Control-Max-Age"] = _MAX_AGE

    return complete


def _admits(origins: Sequence[str], origin: str) -> bool:
    return _ALL in origins or origin.lower() in origins


async def _origins(catalog: Catalog, scope: Scope) -> Sequence[str]:
    """Return the origins that may read the response; none if the catalog fails."""
    link = cast("Mapping[str, object]", scope).get("auth")  # set by the guard of upload links
    if isinstance(link, LinkRecord):
        return link.origins
    names = scope["path_params"]
    try:
        if "link_secret" in names:
            record = await catalog.links.find(str(names["link_secret"]))
        else:
            record = await catalog.projects.find(str(names.get("project_id", "")))
    except StorageError:
        return ()
    return () if record is None else record.origins


# For data that only programs read.
DATA_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; sandbox"
# Browsers show media with inline styles of their own; pages elsewhere may frame media.
MEDIA_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


async def add_security_headers(message: Message, scope: Scope) -> None:  # noqa: ARG001  # Litestar's
    """Add `nosniff`, and a policy unless the response has one (a `before_send` hook)."""
    if message["type"] != "http.response.start":
        return
    headers = MutableScopeHeaders.from_message(message)
    headers["x-content-type-options"] = "nosniff"
    if "content-security-policy" not in headers:
        headers["content-security-policy"] = DATA_POLICY
