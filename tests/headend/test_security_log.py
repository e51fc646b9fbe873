"""The file of security events: its lines, and how floods are limited."""

import json
import logging
import stat
from pathlib import Path
from typing import Any

from headend.security_log import security_log, security_log_path
from tests.support.waiting import poll

SECURITY = logging.getLogger("security")


def lines(path: Path) -> list[dict[str, Any]]:  # Any: JSON
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_is_a_line_with_the_clients_address(tmp_path: Path) -> None:
    with security_log(tmp_path, "serve") as path:
        SECURITY.info("wrong key", extra={"peer": "192.0.2.1", "secret": "not a fact"})
    SECURITY.info("wrong key", extra={"peer": "192.0.2.2"})  # after the block it is not written
    (line,) = lines(path)
    assert line.pop("time").endswith("+00:00")
    assert line == {"event": "wrong key", "peer": "192.0.2.1"}
    assert path == tmp_path / "security-serve.log"


def test_a_flood_of_one_address_is_summed_and_hides_no_other(tmp_path: Path) -> None:
    now = 0.0
    with security_log(tmp_path, "api", clock=lambda: now) as path:
        for _ in range(1000):
            SECURITY.info("token refused", extra={"peer": "192.0.2.1"})
        SECURITY.info("token refused", extra={"peer": "192.0.2.2"})
        now = 61.0
        SECURITY.info("rate limited", extra={"peer": "192.0.2.3"})
    events = [{key: each[key] for key in each if key != "time"} for each in lines(path)]
    refused = {"event": "token refused", "peer": "192.0.2.1"}
    assert events == [
        *[refused] * 5,
        {"event": "token refused", "peer": "192.0.2.2"},
        {"event": "token refused", "more": 995, "seconds": 61.0},
        {"event": "rate limited", "peer": "192.0.2.3"},
    ]


def test_a_flood_that_lasts_until_the_end_is_summed_then(tmp_path: Path) -> None:
    now = 0.0
    with security_log(tmp_path, "api", clock=lambda: now) as path:
        for _ in range(12):
            SECURITY.info("token refused", extra={"peer": "192.0.2.1"})
        now = 20.0
    *refused, total = lines(path)
    assert len(refused) == 5
    assert (total["event"], total["more"], total["seconds"]) == ("token refused", 7, 20.0)


def test_the_file_is_continued_after_a_restart(tmp_path: Path) -> None:
    for number in range(2):
        with security_log(tmp_path, "serve"):
            SECURITY.info("engine lost", extra={"stream": f"{number}"})
    path = security_log_path(tmp_path, "serve")
    assert [each["stream"] for each in lines(path)] == ["0", "1"]
    assert stat.S_ISREG(path.stat().st_mode)


def test_after_another_process_has_rotated_the_file_lines_go_to_the_new_one(tmp_path: Path) -> None:
    older = tmp_path / "security-transcode.log.1"
    with security_log(tmp_path, "transcode") as path:
        SECURITY.info("engine lost", extra={"stream": "0"})
        poll(path.read_text, within=5, what="the first line")
        path.rename(older)
        SECURITY.info("engine lost", extra={"stream": "1"})
        poll(path.exists, within=5, what="a new file")
    assert [each["stream"] for each in lines(older)] == ["0"]
    assert [each["stream"] for each in lines(path)] == ["1"]
