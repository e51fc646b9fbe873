"""An engine that reports whatever it likes, as one that a file has taken over."""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from transcode.protocol.messages import EngineReport, pack


def script_engines(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    reports: Iterable[EngineReport],
    *,
    lasts: bool = False,
) -> None:
    """Make all engines send `reports`; then they end, or wait for a minute if they are to last."""
    (folder / "reports").write_bytes(b"".join(pack(each) for each in reports))
    script = folder / "engine"
    script.write_text(
        f"#!/bin/sh\n/bin/cat {shlex.quote(str(folder / 'reports'))}\n"
        f"{'exec /bin/sleep 60' if lasts else 'exit 0'}\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
