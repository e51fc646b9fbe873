import json
import subprocess
import sys

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
