"""Headers that keep a browser from running an answer as a page.

An answer that is opened as a page, such as JSON or uploaded media, may load nothing and run
nothing; only media may be framed. Pages have policies of their own. Source: CSP Level 3; Fetch,
section 3.6 (`nosniff`).
"""

from typing import Final

from litestar.datastructures import MutableScopeHeaders
from litestar.types import Message, Scope

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
