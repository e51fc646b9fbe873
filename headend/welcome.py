"""The text that a role prints once it is ready: where to watch, send and log in."""

from importlib.metadata import version

from headend.own_command import runnable
from headend.roles.wiring import RunningService
from media.stream_keys import Slot
from storage.catalog.library.sessions import LINK_SECONDS


def welcome(running: RunningService, *, terminal: bool, link: str | None = None) -> str:
    """Return the addresses of a running role, one per line.

    The stream key and the `link` to sign in with are included only for a `terminal`: anything else,
    such as a pipe, a file or the journal, is kept and read by others.
    """
    lines = [f"Headend {version('headend')} is ready."]
    lines += _for_people(running, link if terminal else None)
    lines += _for_viewers(running)
    lines += _for_encoders(running, terminal=terminal)
    if running.status is not None:
        lines.append(f"  Status       {running.status}/readyz")
    if running.token_file is not None:
        lines.append(f"  API          {running.addresses.http}/schema")
        lines.append(f"  Owner token  {running.token_file}")
    return "\n".join(lines)


def _for_people(running: RunningService, link: str | None) -> list[str]:
    if running.token_file is None:
        return []
    lines = [f"  Console      {link or f'{running.addresses.http}/console'}"]
    if link is not None:
        lines.append(f"               signs one browser in, within {LINK_SECONDS // 60} minutes")
    return lines


def _for_viewers(running: RunningService) -> list[str]:
    stream = running.first.stream
    if stream is None or running.token_file is None:
        return []
    return [f"  Watch        {running.addresses.watch(stream.hash)}"]


def _for_encoders(running: RunningService, *, terminal: bool) -> list[str]:
    if running.rtmp_port is None:
        return []
    addresses, stream = running.addresses, running.first.stream
    lines: list[str] = []
    if stream is not None:
        key = stream.key.text if terminal else runnable("`headend streams` prints it")
        lines += [
            '  In OBS       Settings > Stream > Service "Custom..."',
            f"    Server     {addresses.encoder_server(Slot(0))}",
            f"    Stream Key {key}",
        ]
    if running.tls is not None:
        lines.append(f"  Over TLS     {addresses.rtmps_ingest(Slot(0))}")
        if running.tls.authority is not None:
            lines.append(f"    trust      {running.tls.authority}")
    return lines
