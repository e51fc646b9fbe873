"""The text that a role prints once it is ready: where to watch, send and log in."""

from collections.abc import Mapping
from importlib.metadata import version

from headend.roles.wiring import RunningService
from media.stream_keys import Slot

__all__ = ["welcome"]


def welcome(running: RunningService, environment: Mapping[str, str]) -> str:
    """Return the addresses and credentials of a running role, one per line."""
    lines = [f"Headend {version('headend')} is ready."]
    lines += _for_viewers(running)
    lines += _for_encoders(running, environment)
    if running.token_file is not None:
        lines.append(f"  API          {running.addresses.http}/schema")
        lines.append(f"  Owner token  {running.token_file}")
    if running.status is not None:
        lines.append(f"  Status       {running.status}/readyz")
    return "\n".join(lines)


def _for_viewers(running: RunningService) -> list[str]:
    stream = running.first.stream
    if stream is None or running.token_file is None:
        return []
    return [f"  Watch        {running.addresses.watch(stream.hash)}"]


def _for_encoders(running: RunningService, environment: Mapping[str, str]) -> list[str]:
    if running.rtmp_port is None:
        return []
    addresses, stream = running.addresses, running.first.stream
    lines: list[str] = []
    if stream is not None:
        # Under systemd the output goes to the journal, which must not contain a stream key.
        journal = "JOURNAL_STREAM" in environment
        key = "`headend streams` prints it" if journal else stream.key.text
        lines += [
            '  In OBS       Settings > Stream > Service "Custom..."',
            f"    Server     {addresses.rtmp_ingest(Slot(0))}",
            f"    Stream Key {key}",
        ]
    if running.tls is not None:
        lines.append(f"  Over TLS     {addresses.rtmps_ingest(Slot(0))}")
        if running.tls.authority is not None:
            lines.append(f"    trust      {running.tls.authority}")
    return lines
