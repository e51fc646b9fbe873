"""Eight processes edit the same records at once, over HTTP: no confirmed change is lost.

Each process changes other fields, so in the end all changes must be there. A client retries after
409, 429 and 503; it never gets another error.
"""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.e2e.added_records import add_record, add_video
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.e2e

PROCESSES = 8
ROUNDS = 3
OF_VIDEOS = 5  # of the processes
# What one process does: adds a tag of its own in each round, and links it to the stream by editing
# its own key of the settings, the title or the description. Statuses are counted and printed.
EDITOR = """
import json, sys, time, urllib.error, urllib.request

http, token, number, rounds, ids = sys.argv[1:]
number, rounds, ids = int(number), int(rounds), json.loads(ids)
counted = {}


def call(method, path, body):
    request = urllib.request.Request(f"{http}/api/{path}", method=method)
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    request.data = json.dumps(body).encode()
    for _ in range(100):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, found, wait = answer.status, json.load(answer), 0
        except urllib.error.HTTPError as error:
            with error:
                status, found = error.code, json.load(error)
                wait = int(error.headers.get("Retry-After") or 0)
        counted[status] = counted.get(status, 0) + 1
        if status not in (409, 429, 503):
            return found
        time.sleep(min(wait, 1))
    raise SystemExit("never answered")


own = [
    ("title", lambda value: value), ("description", lambda value: value),
    ("category", lambda _: ids["category"]), ("player", lambda _: ids["player"]),
    ("countries", lambda _: ["RO", "de"]), ("resolutions", lambda _: [1, 3]),
    ("tags", lambda value: [{"name": value}, {"name": "shared"}]), (None, None),
]
key, value_of = own[number]
for turn in range(rounds):
    value = f"{number}-{turn}"
    if key is None:
        call("PUT", f"streams/{ids['stream']}/settings",
             {"failover": {"reconnect_seconds": 100 + turn}})
        call("PUT", f"tags/{ids['tag']}", {"name": value})
    else:
        call("PUT", f"streams/{ids['stream']}", {key: value_of(value)})
        call("PUT", f"tags/{ids['tag']}", {"active": turn % 2 == 1})
    if key not in (None, "player", "resolutions"):
        call("PUT", f"videos/{ids['video']}", {key: value_of(f"video {value}")})
    # All of them at the same rows: the totals, and one tag that each would make.
    call("POST", f"projects/1/tags", {"name": f"of {value}"})
print(json.dumps(counted))
"""


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.prove), "postgresql"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[ServiceProcess]:
    environment = {
        "HEADEND_API__REQUESTS_PER_MINUTE": "0",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with ExitStack() as stack:
        if request.param == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            environment["HEADEND_DATABASE__URL"] = stack.enter_context(server.empty_database())
        yield stack.enter_context(service(tmp_path / "data", environment=environment))


def get_json(running: ServiceProcess, path: str) -> Any:  # JSON
    answer = fetch(f"{running.http}/api/{path}", token=running.token)
    assert answer.status == 200, answer.text
    return answer.json


def read(running: ServiceProcess, path: str) -> Any:  # JSON
    return get_json(running, path)["data"]


def test_eight_processes_lose_nothing_and_see_no_error(running: ServiceProcess) -> None:
    ids = {
        "video": add_video(running),
        "stream": add_record(running, "projects/1/streams", "stream", title="Before"),
        "tag": add_record(running, "projects/1/tags", "tag", name="Before"),
        "category": add_record(running, "projects/1/categories", "category", name="Category"),
        "player": add_record(running, "projects/1/players", "player", name="Player"),
    }
    before = get_json(running, "projects/1/events")["meta"]
    editors = [
        subprocess.Popen(
            [sys.executable, "-c", EDITOR, running.http, running.token, str(number), str(ROUNDS),
             json.dumps(ids)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    counted: dict[str, int] = {}
    for editor in editors:
        out, complaints = editor.communicate(timeout=240 * SCALE)
        assert editor.returncode == 0, complaints
        for status, count in json.loads(out).items():
            counted[status] = counted.get(status, 0) + count
    assert set(counted) <= {"200", "201", "409", "429", "503"}, counted
    assert counted["200"] == ROUNDS * (PROCESSES * 2 + OF_VIDEOS)
    assert counted["201"] == PROCESSES * ROUNDS
    last = ROUNDS - 1

    stream = read(running, f"streams/{ids['stream']}")
    assert stream["title"] == f"0-{last}"
    assert stream["description"] == f"1-{last}"
    assert stream["category"]["id"] == ids["category"]
    assert stream["player"]["id"] == ids["player"]
    assert sorted(country["code"] for country in stream["countries"]) == ["DE", "RO"]
    active = {each["id"] for each in stream["resolutions"] if each["active"]}
    assert active == {1, 3}
    assert {tag["name"] for tag in stream["tags"]} == {f"6-{last}", "shared"}
    video = read(running, f"videos/{ids['video']}")
    assert video["title"] == f"video 0-{last}"
    assert video["description"] == f"video 1-{last}"
    assert video["category"]["id"] == ids["category"]
    assert sorted(country["code"] for country in video["countries"]) == ["DE", "RO"]
    assert {tag["name"] for tag in video["tags"]} == {f"video 6-{last}", "shared"}
    settings = read(running, f"streams/{ids['stream']}/settings")
    assert settings["failover"]["reconnect_seconds"] == 100 + last

    # A rename, concurrent with others' edits of the same tag.
    listed = read(running, f"projects/1/tags?search=7-{last}")
    tag = [each for each in listed if each["id"] == ids["tag"]]
    assert [each["name"] for each in tag] == [f"7-{last}"]
    # Each confirmed tag exists once, and the totals and the events agree.
    tags = get_json(running, "projects/1/tags")["meta"]
    own_service = PROCESSES * ROUNDS
    linked = ROUNDS * 2 + 1
    assert tags["total"] == 1 + own_service + linked
    after = get_json(running, "projects/1/events")["meta"]
    assert after["total"] - before["total"] >= ROUNDS * (PROCESSES * 3 + OF_VIDEOS)
