"""What can be set of videos that are fetched from addresses, each number with its reason."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from storage.fetch_policy import Network, parse_networks

__all__ = ["Imports"]


def _about(
    description: str, unit: str, *, reason: str, ge: float | None = None, le: float | None = None
) -> msgspec.Meta:
    return msgspec.Meta(
        description=description, extra={"unit": unit, "reason": reason}, ge=ge, le=le
    )


class Imports(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Videos that are fetched from addresses."""

    at_once: Annotated[
        int,
        _about(
            "files that a process fetches at once; 0: none",
            "",
            reason="one alone fills most lines; a slow server must not hold up the others",
            ge=0,
            le=64,
        ),
    ] = 4
    most_bytes: Annotated[
        int, _about("longest file", "bytes", reason="two hours at 55 Mbit/s", ge=1)
    ] = 50 << 30
    most_seconds: Annotated[
        float,
        _about(
            "longest time that fetching one may take",
            "s",
            reason="the longest file at 20 Mbit/s",
            ge=1,
        ),
    ] = 6 * 3600.0
    ports: Annotated[
        str,
        _about(
            "ports that may be connected to; commas between",
            "",
            reason="behind others stand services that are none of the web's",
        ),
    ] = "80, 443"
    allow_private: Annotated[
        str,
        _about(
            "networks that are not public and may be connected to; commas between",
            "networks",
            reason="who may import could look into the service's own network",
        ),
    ] = ""

    @property
    def open_ports(self) -> frozenset[int]:
        """The ports, as numbers; `ValueError` where one is none."""
        found = frozenset(int(part) for part in self.ports.split(",") if part.strip())
        if not all(0 < port < 1 << 16 for port in found):
            raise ValueError("Expected numbers from 1 to 65535")
        return found

    @property
    def private_networks(self) -> tuple[Network, ...]:
        """The networks; `ValueError` where one is none."""
        return parse_networks(self.allow_private)

    def faults(self) -> Mapping[str, ValueError]:
        """Return what is wrong with its lists, by setting name."""
        found: dict[str, ValueError] = {}
        for name, of in (("ports", "open_ports"), ("allow_private", "private_networks")):
            try:
                getattr(self, of)
            except ValueError as error:
                found[f"imports.{name}"] = error
        return found
