"""A third-party web site: pages of another origin, on a separate loopback server.

To a browser, `localhost` and `127.0.0.1` are two sites.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.in_thread import in_thread


@contextmanager
def site(pages: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Generator[str]:
    """Serve pages by path for the length of the block, and yield the site's URL."""
    sent = dict(headers or {})

    class PageHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is the library's
            page = pages.get(self.path)
            body = (page or "not found").encode()
            self.send_response(404 if page is None else 200)
            for name, text in {**sent, "Content-Type": "text/html; charset=utf-8"}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as above
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), PageHandler)
    with server, in_thread(server.serve_forever, server.shutdown):
        yield f"http://localhost:{server.server_port}"
