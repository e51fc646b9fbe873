import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging
from headend import logs
logs.set_up(form="{form}", level="{level}")
log = logging.getLogger("ingest.stream.live_stream")
log.debug("dialogue", extra={{"said": "connect"}})
log.info("run begins", extra={{"slot": "primary", "stream": "Ab3dEf6hIj9l", "count": 2}})
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed", extra={{"stream": "x"}})
logging.getLogger("uvicorn.access").info("GET / 200")
"""
# What a peer may send: a new line, escapes of a terminal (also as C1), and separators.
HOSTILE = "x\nlevel=error event=forged\r\x1b[2J\x9b31m\u2028y\u202e\x7f\tz=1"
HOSTILE_SCRIPT = """
import logging
from headend import logs
logs.set_up(form="{form}", level="info")
log = logging.getLogger("ingest")
text = {text!r}
log.info("closed", extra={{"agent": text}})
log.info(text)
log.warning("refused: %s", text)
try:
    raise ValueError(text)
except ValueError:
    log.exception("failed")
"""


def lines(form: str, level: str = "info") -> list[str]:
    """Return the log of a separate process, since the set-up applies to a whole process."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(form=form, level=level)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == ""
    return result.stderr.splitlines()


def test_an_event_is_one_line_with_its_identity_first() -> None:
    first, second = lines("text")
    assert first.split(" ", 1)[1] == (
        'level=info event="run begins" stream=Ab3dEf6hIj9l slot=primary count=2'
    )
    assert "ZeroDivisionError" in second


def test_json_lines_hold_the_same() -> None:
    first, second = (json.loads(line) for line in lines("json"))
    assert first["event"] == "run begins"
    assert (first["stream"], first["count"]) == ("Ab3dEf6hIj9l", 2)
    assert "ZeroDivisionError" in second["exception"]


def test_the_level_is_the_least_that_is_written() -> None:
    assert len(lines("text", "debug")) == 3
    assert len(lines("text", "error")) == 1


def logged(form: str) -> bytes:
    script = HOSTILE_SCRIPT.format(form=form, text=HOSTILE)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_text_of_a_peer_reaches_the_terminal_as_more_than_text(form: str) -> None:
    written = logged(form).decode()
    assert len(written.splitlines()) == written.count("\n") == 4  # one for each event
    assert "".join(written.split("\n")).isprintable()


def test_the_text_of_a_peer_can_still_be_read() -> None:
    agent, *_ = logged("text").decode().splitlines()
    assert agent.split(" ", 3)[2:] == [
        "event=closed",
        'agent="x\\nlevel=error event=forged\\u000d\\u001b[2J\\u009b31m'
        '\\u2028y\\u202e\\u007f\\u0009z=1"',
    ]
    agent, *_ = logged("json").decode().splitlines()
    assert json.loads(agent)["agent"] == HOSTILE
