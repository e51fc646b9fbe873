"""The room of one stream: its content by state and token, and the requests of its buttons."""

import html
import re
from pathlib import Path

from media.stream_events import EncoderOnEvent, RefusedEvent, SlateEvent
from media.stream_keys import StreamKey
from storage.catalog.events.kinds import BackupAddedEvent
from storage.catalog.records.common import Change
from storage.catalog.streams.commands import CommandKind, StreamCommand
from storage.catalog.streams.live_state import AirState
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.console_client import Browser
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

HOSTILE = "\"><script>alert('title')</script>"
CONNECTED = EncoderOnEvent(slot="primary", receiving_count=1)
REFUSED = RefusedEvent(slot="primary", reason="the stream was ended")
FRAGMENTS = ("state", "slots", "actions", "setup", "events", "details", "settings")
BOTH_SEND = AirState(live=True, processing=True, on_air=0, sending=[0, 1], no_audio=False)
SLATE = AirState(live=True, processing=True, on_air=None, sending=[], no_audio=False)


def room_of(stream: Json) -> str:
    return f"/console/1/streams/{stream['id']}"


def key_of(stream: Json) -> StreamKey:
    key = StreamKey.parse(stream["stream"])
    assert key is not None
    return key


def acts_in(page: str) -> set[str]:
    """Return the requests that a page's buttons and forms send, without the stream's number."""
    requests = re.findall(r'data-api="([A-Z]+) /api/streams/\d+([^"]*)"', page)
    return {f"{method} {path}" for method, path in requests}


async def test_a_new_streams_room_explains_how_to_go_live(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add("Evening show")
    answer = await browser.get(room_of(stream))
    assert answer.status_code == 200
    page = answer.text
    assert "<title>Evening show" in page
    assert "It goes live by itself when an encoder sends." in page
    assert f'value="{stream["rtmp_url"]}"' in page
    assert f'value="{stream["stream"]}"' in page
    assert f'action="/api/streams/{stream["id"]}/obs-profile"' in page
    assert f'src="/embed/{stream["hash"]}"' in page
    assert "The stream was added." in page
    # Nothing is on air: there is nothing to pause or to end.
    expected = {
        "POST /unpublish",
        "POST /rotate-key",
        "POST /backups",
        "DELETE ",
        "PUT ",
        "PUT /settings",
    }
    assert expected <= acts_in(page)
    assert not acts_in(page) & {"POST /pause", "POST /end", "POST /failover-drill"}


async def test_the_key_is_hidden_until_it_is_asked_for(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    page = (await browser.get(room_of(stream))).text
    assert page.count(stream["stream"]) == 1
    assert re.search(rf'id="stream-key" type="password"[^>]*value="{stream["stream"]}"', page)


async def test_a_stream_on_air_shows_since_when_and_can_be_stopped(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(
        stream["id"], now_us=NOW_US, happened=[CONNECTED], **BOTH_SEND
    )
    page = (await browser.get(room_of(stream))).text
    state = (await browser.fragment(room_of(stream), "state")).text
    assert 'class="state good">Live<' in state
    assert "Primary is on air" in state
    assert "data-since>" in state
    slots = (await browser.fragment(room_of(stream), "slots")).text
    assert slots.count('class="state good">On air<') == 1
    assert slots.count("Standing by") == 1
    assert "data-measured" in slots
    assert {"POST /pause", "POST /end", "POST /failover-drill"} <= acts_in(page)
    # An address that an encoder uses cannot be deleted.
    assert not any(act.startswith("DELETE /backups") for act in acts_in(page))


async def test_a_drill_knows_how_long_viewers_wait_by_the_nearest_setting(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(
        stream["id"], now_us=NOW_US, happened=[CONNECTED], **BOTH_SEND
    )
    waits: list[str] = []
    for path, body in (
        ("", None),
        ("/api/projects/1/settings", {"latency": "normal"}),
        ("/api/projects/1/settings", {"failover": {"align_wait_seconds": 2}}),
        (f"/api/streams/{stream['id']}/settings", {"failover": {"align_wait_seconds": 0.5}}),
    ):
        if path:
            assert (await browser.act("PUT", path, body)).status_code == 200
        acts = (await browser.fragment(room_of(stream), "actions")).text
        waits += re.findall(r'data-wait="([^"]*)"', acts)
    assert waits == ["1.0", "3.0", "2.0", "0.5"]
    # Until the page has a report, nothing is promised.
    assert re.search(r'data-confirm="The encoder on air counts as lost[^"]* may jump', acts)


async def test_a_stream_without_an_encoder_shows_that_viewers_see_the_slate(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(
        stream["id"], now_us=NOW_US, happened=[SlateEvent(reason="lost")], **SLATE
    )
    state = (await browser.fragment(room_of(stream), "state")).text
    assert 'class="state bad">Slate<' in state
    assert "viewers see the slate" in state
    assert "data-since>" in state
    acts = (await browser.fragment(room_of(stream), "actions")).text
    assert "POST /failover-drill" not in acts_in(acts)
    assert "A switch needs two encoders that send" in acts


async def test_an_ended_stream_says_that_encoders_are_refused_and_can_go_live_again(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    catalog, room = api_service.catalog, room_of(stream)
    assert "POST /allow" not in acts_in((await browser.get(room)).text)
    command = StreamCommand(stream=stream["id"], hash=stream["hash"], kind=CommandKind.END)
    number = await catalog.commands.add(command, NOW_US)
    assert await catalog.commands.start(number, NOW_US, hold_us=60_000_000)
    state = (await browser.fragment(room, "state")).text
    assert "It was ended: an encoder that reconnects by itself is refused." in state
    acts = (await browser.fragment(room, "actions")).text
    assert "POST /allow" in acts_in(acts)
    assert "Go live again" in acts
    # Until it is over, which no event tells.
    assert "data-poll" in state
    assert "data-poll" in acts
    record = await catalog.live_state.find_ingest(key_of(stream))
    assert record is not None
    await catalog.holds.refuse(record, REFUSED, hold_us=60_000_000, now_us=NOW_US)
    state = (await browser.fragment(room, "state")).text
    assert "an encoder that tries to go live is refused" in state
    answer = await api_service.client.post(
        f"/api/streams/{stream['id']}/allow", headers=api_service.owner
    )
    assert answer.status_code == 200
    assert "POST /allow" not in acts_in((await browser.get(room)).text)
    state = (await browser.fragment(room, "state")).text
    assert "It goes live by itself" in state
    assert "data-poll" not in state


async def test_the_question_before_an_end_says_what_becomes_of_encoders(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(stream["id"], now_us=NOW_US, **BOTH_SEND)
    acts = html.unescape((await browser.fragment(room_of(stream), "actions")).text)
    assert "refused until none has tried for 60 s, or until you press “Go live again”" in acts


async def test_a_paused_stream_can_be_resumed(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(stream["id"], now_us=NOW_US, **BOTH_SEND)
    run_sql(catalog_database, f"UPDATE streams SET paused = true WHERE id = {stream['id']}")
    acts = acts_in((await browser.fragment(room_of(stream), "actions")).text)
    assert "POST /resume" in acts
    assert not acts & {"POST /pause", "POST /failover-drill"}


async def test_dangerous_acts_ask_and_name_what_happens_to_viewers(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(stream["id"], now_us=NOW_US, **BOTH_SEND)
    page = (await browser.get(room_of(stream))).text
    for path in ("/pause", "/end", "/failover-drill", "/unpublish", "/rotate-key", ""):
        method = "POST" if path else "DELETE"
        (button,) = re.findall(rf'data-api="{method} /api/streams/\d+{path}"([^>]*)>', page)
        (question,) = re.findall(r'data-confirm="([^"]*)"', button)
        assert "iewers" in question, path
        assert "data-confirm-label=" in button


async def test_a_reader_sees_all_but_the_key_and_can_do_nothing(api_service: ApiService) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(stream["id"], now_us=NOW_US, **BOTH_SEND)
    _, token = await api_service.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
    reader = Browser(api_service)
    await reader.sign_in(token)
    page = (await reader.get(room_of(stream))).text
    secret = stream["stream"].partition("_")[2]
    assert secret not in page
    assert "********" in page
    assert "obs-profile" not in page
    assert not re.findall(r"<button[^>]*data-api", page)
    assert page.count("<fieldset disabled>") == 2


async def test_a_stream_of_another_project_is_not_found(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    other = await api_service.catalog.projects.add("Other", Change(1))
    assert (await browser.get(f"/console/{other.key}/streams/{stream['id']}")).status_code == 404
    _, token = await api_service.catalog.tokens.add("theirs", other.id, Change(NOW_US), write=True)
    stranger = Browser(api_service)
    await stranger.sign_in(token)
    assert (await stranger.get(room_of(stream))).status_code == 404
    for number in ("0", "x", "99999999999"):
        assert (await browser.get(f"/console/1/streams/{number}")).status_code == 404


async def test_every_fragment_is_a_part_of_its_page(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    page = (await browser.get(room_of(stream))).text
    for name in FRAGMENTS:
        part = (await browser.fragment(room_of(stream), name)).text
        assert "<html" not in part
        assert part.strip() in page, name
        assert f'id="{name}"' in page


async def test_texts_of_people_are_text(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    stream = await api_service.add(HOSTILE)
    tag = {"tags": [{"name": HOSTILE}], "description": HOSTILE}
    assert (await browser.act("PUT", f"/api/streams/{stream['id']}", tag)).status_code == 200
    category = {"name": HOSTILE}
    await browser.act("POST", "/api/projects/1/categories", category)
    await browser.act("POST", "/api/projects/1/players", category)
    event = RefusedEvent(slot="primary", reason=HOSTILE)
    await api_service.catalog.events.add(stream["hash"], event, NOW_US)
    # A kind of another version, of which there are no words.
    quoted = HOSTILE.replace("'", "''")
    run_sql(catalog_database, f"UPDATE events SET kind = '{quoted}' WHERE kind = 'stream edited'")
    page = (await browser.get(room_of(stream))).text
    assert page.count("alert(") > 8
    assert "<script>alert" not in page
    assert HOSTILE not in page


async def test_events_are_ten_a_page_the_newest_first(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add()
    for number in range(12):
        await api_service.catalog.events.add(
            stream["hash"],
            BackupAddedEvent(stream=stream["id"], backup=number, number=number),
            NOW_US + number,
        )
    first = (await browser.fragment(room_of(stream), "events")).text
    assert first.index("Backup 11 was added.") < first.index("Backup 10 was added.")
    assert 'href="?page=2#events"' in first
    second = (await browser.fragment(f"{room_of(stream)}?page=2", "events")).text
    assert "The stream was added." in second
    assert 'href="?page=1#events"' in second


async def test_an_event_leads_to_the_video_that_came_of_it_while_that_is_there(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    stream = await api_service.add()
    videos = [
        (await api_service.catalog.videos.add(1, new_video(), Change(NOW_US))).video
        for _ in range(2)
    ]
    run_sql(
        catalog_database,
        *(
            "INSERT INTO events (project_id, subject, kind, facts, created_us, number) VALUES"
            f" (1, '{stream['hash']}', '{kind}', '{{\"video\": \"{video.hash}\"}}', 1, {number})"
            for number, kind, video in zip(
                (98, 99), ("recorded", "clip added"), videos, strict=True
            )
        ),
    )
    await api_service.catalog.videos.remove(videos[1].id, Change(NOW_US))
    events = (await browser.fragment(room_of(stream), "events")).text
    links = re.findall(r'href="(/console/[^"]*/videos[^"]*)">([^<]*)<', events)
    assert links == [(f"/console/{api_service.key}/videos/{videos[0].id}", "Open the video")]


async def test_forms_show_what_is_set_and_name_its_version(
    api_service: ApiService, browser: Browser
) -> None:
    stream = await api_service.add("Title")
    api = f"/api/streams/{stream['id']}"
    edit = {"countries": ["RO"], "resolutions": [1, 3], "tags": [{"name": "news"}]}
    await browser.act("PUT", api, edit)
    chosen = {"latency": "normal", "recording": {"enabled": False}, "dvr_seconds": 90}
    await browser.act("PUT", f"{api}/settings", chosen)
    await browser.act("PUT", "/api/projects/1/settings", {"failover": {"return_seconds": 30}})
    details = (await browser.fragment(room_of(stream), "details")).text
    assert re.search(r'name="countries"[^>]*value="642" checked', details)
    assert re.findall(r'name="resolutions"[^>]*value="(\d)" checked', details) == ["1", "3"]
    assert re.search(r'name="tags"[^>]*value="news" checked', details)
    settings = (await browser.fragment(room_of(stream), "settings")).text
    assert '<option value="normal" selected>' in settings
    assert '<option value="false" selected>' in settings
    assert 'value="90"' in settings
    assert "30, from the project" in settings
    for part, path in ((details, api), (settings, f"{api}/settings")):
        (version,) = re.findall(r'data-version="([^"]*)"', part)
        answer = await browser.act("GET", path)
        assert answer.headers["etag"] == f'"{version}"'


async def test_the_snippets_can_be_copied(api_service: ApiService, browser: Browser) -> None:
    stream = await api_service.add(HOSTILE)
    page = (await browser.get(room_of(stream))).text
    snippets = {
        html.unescape(text) for text in re.findall(r"<textarea[^>]*>([^<]*)</textarea>", page)
    }
    assert set(stream["embed"].values()) <= snippets
