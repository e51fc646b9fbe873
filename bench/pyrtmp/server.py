"""pyrtmp as a peer: serves RTMP on loopback and reports each publisher in lines of JSON.

Runs in its own virtual environment (`requirements.txt` beside this file) and shares no code with
Headend. Standard output carries JSON lines: first `listening` with the port, then for each
connection `connect`, `publish`, `frame` (the first coded picture) and, when it is over, `closed`
with what was counted. pyrtmp's own behaviour is left as it is; this only watches.
See docs/decisions/0001-own-rtmp-core.md.

Usage: server.py HOST [CERTIFICATE KEY]   (with a certificate: RTMPS)
"""

import asyncio
import json
import logging
import ssl
import sys
import time

from pyrtmp.rtmp import RTMPProtocol, SimpleRTMPController

__all__ = ["CountingController", "main", "serve"]


def say(event: str, **facts: object) -> None:
    """Write one line and flush it."""
    print(json.dumps({"event": event, **facts}), flush=True)


class LastError(logging.Handler):
    """Keeps the newest error, because pyrtmp only logs what ends a connection."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.text = repr(error) if error else record.getMessage()


class CountingController(SimpleRTMPController):
    """pyrtmp's controller, which counts what it passes on."""

    def __init__(self, errors: LastError) -> None:
        self.errors = errors
        self.frames = 0
        self.audio = 0
        self.bytes = 0  # of the bodies of both
        self.started = time.process_time()

    async def client_callback(self, reader, writer) -> None:
        self.errors.text = ""
        try:
            await super().client_callback(reader, writer)
        except Exception as error:
            self.errors.text = repr(error)
            raise
        finally:
            say(
                "closed",
                frames=self.frames,
                audio=self.audio,
                bytes=self.bytes,
                error=self.errors.text,
                cpu_ms=round(1000 * (time.process_time() - self.started)),
            )

    async def on_nc_connect(self, session, message) -> None:
        say("connect")
        await super().on_nc_connect(session, message)

    async def on_ns_publish(self, session, message) -> None:
        say("publish")
        await super().on_ns_publish(session, message)

    async def on_video_message(self, session, message) -> None:  # noqa: ARG002 (pyrtmp calls it)
        if self.frames == 0:
            say("frame")
        self.frames += 1
        self.bytes += message.msg_length

    async def on_audio_message(self, session, message) -> None:  # noqa: ARG002 (pyrtmp calls it)
        self.audio += 1
        self.bytes += message.msg_length


async def serve(host: str, tls: ssl.SSLContext | None) -> None:
    """Serve on a free port of `host` until the process ends."""
    errors = LastError()
    logging.getLogger("pyrtmp.rtmp").addHandler(errors)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: RTMPProtocol(controller=CountingController(errors)), host=host, port=0, ssl=tls
    )
    say("listening", port=server.sockets[0].getsockname()[1])
    async with server:
        await server.serve_forever()


def main() -> None:
    """Parse the host and the certificate's files from the command line."""
    host, *files = sys.argv[1:]
    tls = None
    if files:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*files)
    asyncio.run(serve(host, tls))


if __name__ == "__main__":
    main()
