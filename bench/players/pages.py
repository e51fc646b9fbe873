"""Pages that play an address in Chromium, each with one player as it is, or the browser's own."""

import functools
import http.server
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.tools import install
from tests.support.in_thread import in_thread

_HERE: Final = Path(__file__).parent
_STATIC: Final = _HERE.parents[1] / "api" / "static"
_TYPES: Final = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}
OUR_PAGE: Final = "page"  # it is the service's own; here it plays what is no stream or video of it
# Page: the player's file in its package; the browser's own player needs none.
PAGES: Final[dict[str, tuple[str, str] | None]] = {
    "hls": ("hls.js", "hls.js/dist/hls.min.js"),
    "shaka": ("shaka.js", "shaka-player/dist/shaka-player.compiled.js"),
    "videojs": ("video.js", "video.js/dist/video.min.js"),
    "chromium": None,
}


@contextmanager
def player_pages() -> Generator[dict[str, str]]:
    """Serve the pages; each one's address takes the playlist's after a `#`.

    Raises:
        ToolMissing: Node, which installs the players, is not there.
    """
    packages = install(_HERE)
    files = {f"/{name}": _STATIC / name for name in ("watch.css", "watch.js")}
    files[f"/{OUR_PAGE}.html"] = _HERE / f"{OUR_PAGE}.html"
    for page, player in PAGES.items():
        files[f"/{page}.html"] = _HERE / f"{page}.html"
        if player is not None:
            script, file = player
            files[f"/{script}"] = packages / file
    handler = functools.partial(_Files, files)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with server, in_thread(server.serve_forever, server.shutdown):
        at = f"http://127.0.0.1:{server.server_port}"
        yield {page: f"{at}/{page}.html" for page in (OUR_PAGE, *PAGES)}


class _Files(http.server.BaseHTTPRequestHandler):
    """Answers with one of a few files."""

    def __init__(self, files: dict[str, Path], *arguments: object) -> None:
        self._files = files
        super().__init__(*arguments)  # pyright: ignore[reportArgumentType]  # socketserver's own three

    def do_GET(self) -> None:
        path = self._files.get(self.path)
        body = path.read_bytes() if path else b""
        self.send_response(200 if path else 404)
        self.send_header("Content-Type", _TYPES[path.suffix] if path else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name
        """Write nothing."""
