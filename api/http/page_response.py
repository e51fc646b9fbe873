"""A request and its answer where the framework's own would cost too much: pages and files.

GET and HEAD only. HEAD answers as GET would, without the body.
"""

from collections.abc import Mapping

import msgspec
from litestar.handlers import ASGIRouteHandler
from litestar.types import Scope, Send

__all__ = ["Asked", "Handlers", "Reply", "answer", "plain"]

# Routes of pages and files, for the application.
Handlers = list[ASGIRouteHandler]

_ZERO = {"0", "0.0", "0.00", "0.000"}  # RFC 9110, 12.4.2: "not acceptable"


class Asked(msgspec.Struct, frozen=True):
    """What an answer depends on; header names are in lower case, a repeated one's last counts."""

    method: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, scope: Scope) -> "Asked":
        """Read a request of HTTP; anything else has no method, so it is refused."""
        if scope["type"] != "http":
            return cls("", {})
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        return cls(scope["method"], headers)

    @property
    def accepts_gzip(self) -> bool:
        """Whether gzip is offered, and not with a weight of zero."""
        for offer in self.headers.get("accept-encoding", "").lower().split(","):
            name, *parameters = (part.strip() for part in offer.split(";"))
            if name == "gzip":
                return not any(part.removeprefix("q=") in _ZERO for part in parameters)
        return False

    def has(self, tag: str) -> bool:
        """Say whether the asker holds what carries this entity tag (RFC 9110, 13.1.2)."""
        held = self.headers.get("if-none-match", "").split(",")
        return any(part.strip().removeprefix("W/") in {tag, "*"} for part in held)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it leaves, but for its length."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Return an answer of one line for whoever reads it raw."""
    kind = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    return Reply(status=status, headers=kind | dict(headers or {}), body=f"{text}\n".encode())


async def answer(reply: Reply, asked: Asked, send: Send) -> None:
    """Send `reply`, or what a request that is not GET or HEAD gets."""
    if not asked.method:
        await send({"type": "websocket.close", "code": 1000, "reason": None})
        return
    if asked.method not in {"GET", "HEAD"}:
        reply = plain(405, "method not allowed", {"Allow": "GET, HEAD"})
    headers = dict(reply.headers)
    if reply.status != 304:
        headers["Content-Length"] = str(len(reply.body))
    lines = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": lines})
    body = b"" if asked.method == "HEAD" else reply.body
    await send({"type": "http.response.body", "body": body, "more_body": False})
