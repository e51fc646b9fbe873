"""The docs match the code: settings, limits, metrics, messages and addresses.

`test_house` checks the links between pages.
"""

import re
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily

from delivery.edge.memory import MemoryEdge
from delivery.edge.shared import Edges
from headend.config.settings import ServiceSettings
from headend.http.metrics import HttpMetrics
from headend.roles.edge_metrics import EdgeMetrics
from headend.roles.ingest_metrics import IngestMetrics
from ingest.publishing.service import NOT_LOOKED_UP, TOO_MANY_WRONG, WRONG_KEY
from ingest.rtmp import errors
from ingest.rtmp.limits import Limits
from ingest.stream.live_stream import ALIVE_SECONDS, ANSWER_SECONDS, SlotOccupied
from ingest.stream.ports import PublishRefused, StreamDeleted, StreamEnded
from media.ladder import BOXES
from media.loop_lag import LoopLag
from scripts import events_page, sandbox_page
from scripts.settings_page import PAGE, defaults, filled
from tests.support.e2e.odd_sources import INPUTS
from tests.support.headend.idle_ingest import idle_ingest
from tests.support.rooms import ROOMS, ROOT
from transcode.sandbox.system_calls import SYSTEM_CALLS

DENIALS = (WRONG_KEY, TOO_MANY_WRONG, NOT_LOOKED_UP)


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def code(*rooms: str) -> str:
    """Return the source of packages or modules."""
    files = [path for room in rooms for path in sorted(ROOT.glob(room))]
    assert files, rooms
    return "\n".join(path.read_text() for path in files)


# -- settings ----------------------------------------------------------------------------------


def test_the_settings_page_says_what_the_code_says() -> None:
    """If it fails, run `.venv/bin/python scripts/settings_page.py`."""
    assert filled(PAGE.read_text(), defaults()) == PAGE.read_text()


def test_every_setting_has_its_line_once() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(setting.name for setting in defaults())


def test_every_limit_has_a_reason() -> None:
    limits = [setting for setting in defaults() if setting.name.startswith("limits.")]
    assert [setting.name for setting in limits if not setting.reason] == []
    source = code("ingest/rtmp/limits.py")
    constants = set(Limits.__struct_fields__) - {each.name.partition(".")[2] for each in limits}
    reasoned = re.findall(r"^    # .+\n    (\w+): \w+ = .+  # ", source, re.MULTILINE)
    assert constants == set(reasoned)


def test_a_section_without_a_table_is_noticed() -> None:
    without = PAGE.read_text().replace("<!-- settings live -->", "")
    with pytest.raises(ValueError, match="live"):
        filled(without, defaults())


def test_the_sandbox_page_says_what_the_code_says() -> None:
    """If it fails, run `.venv/bin/python scripts/sandbox_page.py`."""
    text = sandbox_page.PAGE.read_text()
    assert sandbox_page.filled(text) == text
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(SYSTEM_CALLS)
    with pytest.raises(ValueError, match="DENIED"):
        sandbox_page.filled(text.replace("<!-- calls ALLOWED -->", ""))


def test_the_events_page_says_what_the_kinds_say() -> None:
    """If it fails, run `.venv/bin/python scripts/events_page.py`."""
    text = events_page.PAGE.read_text()
    assert events_page.filled(text) == text
    with pytest.raises(ValueError, match="videos"):
        events_page.filled(text.replace("<!-- events on air -->", ""))


@pytest.mark.parametrize("name", ["publish", "playback", "metrics", "settings", "architecture"])
def test_settings_that_pages_name_exist(name: str) -> None:
    sections = "|".join(ServiceSettings.__struct_fields__)
    named = set(re.findall(rf"`((?:{sections})\.[a-z_]+)`", page(name)))
    places = {each: ROOT / each.replace(".", "/") for each in named}
    rooms = {each for each, at in places.items() if at.is_dir() or at.with_suffix(".py").exists()}
    assert named - rooms - {setting.name for setting in defaults()} == set()


# -- metrics -----------------------------------------------------------------------------------


async def families(folder: Path) -> dict[str, str]:
    """Return the metrics of both roles without encoders: types by name."""
    edge = MemoryEdge()
    async with idle_ingest(folder) as (listener, transcoding):
        return {
            f"{each.name}_total" if isinstance(each, CounterMetricFamily) else each.name: each.type
            for each in (
                *IngestMetrics(listener, transcoding, LoopLag()).collect(),
                *EdgeMetrics(Edges(writer=edge, reader=edge)).collect(),
                *HttpMetrics().collect(),
            )
        }


async def test_every_metric_has_its_line_with_its_kind(tmp_path: Path) -> None:
    lines = re.findall(r"^\| `(headend_\w+)` \| (\w+) \|", page("metrics"), re.MULTILINE)
    assert dict(lines) == await families(tmp_path)


async def test_metrics_that_are_named_exist(tmp_path: Path) -> None:
    named = set(re.findall(r"headend_\w+", page("metrics") + page("settings")))
    assert named - set(await families(tmp_path)) == set()


def test_every_cause_of_a_refusal_is_explained() -> None:
    ingest = code("ingest/**/*.py")
    causes = {each.cause for each in (*PublishRefused.__subclasses__(), *DENIALS)}
    causes |= set(re.findall(r'return "(too many [^"]+)"', ingest))
    causes |= set(re.findall(r'_note\("[^"]+", "([^"]+)"', ingest))
    causes |= {each.__name__ for each in errors.RtmpError.__subclasses__()}
    assert len(causes) > 15
    assert {cause for cause in causes if f"`{cause}`" not in page("metrics")} == set()


# -- words -------------------------------------------------------------------------------------


def test_words_of_refusals_are_those_that_encoders_get() -> None:
    """The page has all messages of the code, and no others."""
    source = re.sub(
        r'"\s*\n\s*"',
        "",
        code("ingest/server/connection.py", "ingest/stream/live_stream.py", "ingest/rtmp/*.py"),
    )
    documented = {each.words for each in DENIALS if each.words is not None}
    documented |= set(re.findall(r'(?:disconnect|_stop_accepting)\("([^"]+)"', source))
    documented |= set(re.findall(r'AddressRefused\("([^"{]+)"\)', source))
    documented |= {str(errors.PlayRefused()), str(StreamEnded("", 60)), str(SlotOccupied())}
    documented.add(str(StreamDeleted()))
    assert len(documented) > 7
    section = page("publish").partition("## What is refused")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)) == documented


def test_codecs_are_refused_in_the_words_of_the_page() -> None:
    for kind, codec in (("video", "VP8"), ("audio", "Speex")):
        assert f"`{errors.UnsupportedMedia(kind, codec)}`" in page("publish")


def test_the_ladder_on_the_page_is_the_one_that_streams_begin_with() -> None:
    rows = re.findall(r"^\| (\d+p) \| (\d+)x(\d+) \| ([\d.]+) Mbit/s \|", page("publish"), re.M)
    assert [(label, int(wide), int(high), float(rate)) for label, wide, high, rate in rows] == [
        (box.label, box.width, box.height, box.rate / 1e6)
        for box in reversed(BOXES)
        if box.standard
    ]


def test_times_on_the_page_are_those_of_the_code() -> None:
    words = page("publish")
    live = ServiceSettings().live
    assert f"for {live.reconnect_seconds:g} s (`live.reconnect_seconds`)" in words
    assert f"for {live.goodbye_seconds:g} s (`live.goodbye_seconds`)" in words
    assert f"silent for {ALIVE_SECONDS:g} s" in words
    assert f"waits up to {ANSWER_SECONDS:g} s" in words
    assert f"sends nothing** for {Limits().idle_media_seconds:g} s" in words


# -- the project ------------------------------------------------------------------------------


def test_every_package_has_its_line_and_every_line_its_package() -> None:
    listed = re.findall(r"^\| `([a-z.]+)` \| .+ \|$", page("architecture"), re.MULTILINE)
    packages = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for room in ROOMS
        for path in (ROOT / room).rglob("__init__.py")
    }
    packages.discard("storage.catalog.migrations.versions")
    assert sorted(listed) == sorted({*packages, "web"})


def test_the_index_has_every_page_on_one_shelf() -> None:
    named = re.findall(r"\]\(([\w.-]+\.md)\)", page("README"))
    assert sorted(named) == sorted(
        path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"
    )


def test_the_page_of_sources_has_a_row_for_each_that_is_tried() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (\d+) \|$", page("inputs"), re.MULTILINE)
    assert [(name, int(marks)) for name, _, marks in rows] == [
        (entry.name, entry.marks) for entry in INPUTS
    ]
    senders = {entry.by.removeprefix("modern ").split()[0] for entry in INPUTS}
    assert {by.split()[0] for _, by, _ in rows} == senders


@pytest.mark.parametrize(
    "name",
    ["architecture", "how-to-add", "publish", "playback", "settings", "metrics", "inputs", "rtmp"],
)
def test_files_that_pages_name_exist(name: str) -> None:
    folders = "|".join((*ROOMS, "docs", "tests", "scripts"))
    named = re.findall(rf"`((?:{folders})/[\w/.]+)`", page(name))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_cache_headers_on_the_page_are_those_of_the_origin() -> None:
    named = "FOREVER|LIVE_TEXT|VARIANTS|VIDEO_TEXT|POSTER|LIVE_POSTER|PLACEHOLDER|UNCACHED|PRIVATE"
    modules = (
        "api/origin/media_request.py",
        "api/origin/representations.py",
        "api/origin/refusals.py",
        "api/http/static_files.py",
    )
    headers = re.findall(rf'\b_?({named}): Final = "([^"]+)"', code(*modules))
    assert len(headers) == len(named.split("|"))
    values = {each for _, each in headers}
    assert {each for each in values if f"`{each}`" not in page("playback")} == set()
