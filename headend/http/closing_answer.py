"""An answer that this server gives to a peer whose connection it closes then."""

from http import HTTPStatus


class ClosingAnswer:
    """An answer of plain text, as bytes; `fields` are further lines of its head."""

    __slots__ = ("body", "head")

    def __init__(self, status: HTTPStatus, text: str, fields: str = "") -> None:
        self.body = text.encode()
        self.head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(self.body)}\r\n"
            f"cache-control: no-store\r\n{fields}connection: close\r\n\r\n"
        ).encode()
