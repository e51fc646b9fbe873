"""The settings of the mail server by which operators are told of alerts."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from headend.config.section import Section
from media.alerts import is_address
from media.setting import describe

_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?")
# RFC 6409 and RFC 8314; without TLS, a server of one's own.
_PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class MailSettings(Section, frozen=True, kw_only=True):
    """Mail to operators; who gets it is set in the console."""

    server: Annotated[
        str, describe("SMTP server that takes mails; empty: none are sent", "HOST:PORT")
    ] = ""
    security: Annotated[
        Literal["starttls", "tls", "none"],
        describe(
            "`starttls`: TLS once connected, by default at port 587; `tls`: TLS from the start, at"
            " 465; `none`: no TLS, at 25, and a password on this machine only"
        ),
    ] = "starttls"
    sender: Annotated[str, describe("address that mails are from")] = ""
    user: Annotated[str, describe("user at the server; empty: none is needed")] = ""
    password: Annotated[str, describe("password of that user", secret=True)] = ""
    password_file: Annotated[
        str, describe("file whose first line is the password, read for each mail")
    ] = ""
    authority: Annotated[
        str, describe("PEM file of the authority of its certificate; empty: those of the system")
    ] = ""

    @property
    def place(self) -> tuple[str, int]:
        """The server's host and port; raises `ValueError` if it has another form."""
        match = _SERVER.fullmatch(self.server)
        port = _PORTS[self.security] if match is None or match[2] is None else int(match[2])
        if match is None or not 0 < port < 1 << 16:
            raise ValueError("Expected HOST or HOST:PORT")
        return match[1].strip("[]"), port

    def errors(self) -> Mapping[str, ValueError]:
        """Return what is wrong with the settings, by setting name."""
        if not self.server:
            return {}
        errors: dict[str, ValueError] = {}
        host = ""
        try:
            host, _ = self.place
        except ValueError as error:
            errors["mail.server"] = error
        if not is_address(self.sender):
            errors["mail.sender"] = ValueError("Expected an address, as headend@example.org")
        if self.security == "none" and self.user and host not in _LOOPBACK:
            errors["mail.security"] = ValueError("Expected TLS, or the password could be read")
        if self.password and self.password_file:
            errors["mail.password_file"] = ValueError("Expected no mail.password beside it")
        return errors
