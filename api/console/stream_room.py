"""The room of one stream: what viewers get, what encoders send, and what can be done about it.

Measurements are not in the page: its script requests them from the API (`/ingest`) while encoders
send.
"""

from typing import Final

from litestar import Response, get

from api.console.event_words import describe
from api.console.label_choice import BY_NAME, MOST_CHOICES, category_choice, tag_choice
from api.console.page import GivenConsole
from api.console.stream_states import ON_AIR_EVENTS, SLATE_EVENTS, slot_states, state_of
from api.http.parameters import PageNumber, read_query
from api.library.lookup import PROJECT, ProjectCall
from api.streams.lookup import STREAM, StreamCall, stream_tag
from api.streams.obs_files import DEFAULT_LABEL, bit_rate
from api.streams.presenter import settings_tag
from media.countries import COUNTRIES
from media.ladder import SELECTABLE_BOXES
from media.run_policy import ResolvedPolicy, RunPolicy, resolve
from storage.catalog import Catalog
from storage.catalog.records.common import StreamRecord
from storage.catalog.records.settings import OwnerSettings
from storage.catalog.streams.holds import is_held

_DEPENDENCIES: Final = {**STREAM, "project": PROJECT["call"]}
_FRAGMENTS: Final = {
    "state": "_stream_state.html",
    "slots": "_stream_slots.html",
    "actions": "_stream_actions.html",
    "setup": "_stream_setup.html",
    "events": "_stream_events.html",
    "details": "_stream_details.html",
    "settings": "_stream_settings.html",
}
_NEWEST: Final = 1
_OBS_SIZES: Final = tuple((box.label, bit_rate(box)) for box in SELECTABLE_BOXES)


@get("/{project_id:str}/streams/{stream_id:str}", dependencies=_DEPENDENCIES)
async def room_page(
    call: StreamCall,
    project: ProjectCall,
    console: GivenConsole,
    page: PageNumber = None,
) -> Response[str]:
    """Show the room; `page` is that of the events."""
    if call.record.project != project.record.id:
        raise call.missing()
    number = read_query(page=page).page
    state = state_of(call.record)
    settings = await call.catalog.stream_settings.find(call.record.id) or OwnerSettings()
    inherited = await call.catalog.project_settings.find(project.record.id) or OwnerSettings()
    events = await call.catalog.events.find_page(
        project.record.id, page=number, subject=call.record.hash
    )
    lines = [describe(event) for event in events.items]
    made = [line.video for line in lines if line.video]
    return console.page(
        call.request,
        "stream.html",
        fragments=_FRAGMENTS,
        project=project.record,
        stream=call.record,
        body=call.presenter.stream(call.record, show_key=call.caller.write),
        state=state,
        held=is_held(call.record.held_until_us, call.now_us()),
        end_holds_seconds=console.end_holds_seconds,
        since_us=await _since(call.catalog, call.record, state),
        slots=slot_states(call.record, call.addresses),
        events=events,
        lines=lines,
        videos=await call.catalog.videos.find_numbers(project.record.id, made) if made else {},
        newest=number == _NEWEST,
        settings=settings,
        slate=None if settings.slate is None else call.addresses.slate(settings.slate),
        inherited=inherited,
        align_wait_seconds=_policy(console.policy, inherited, settings).align_wait_seconds,
        stream_tag=stream_tag(call.record),
        settings_tag=settings_tag(settings),
        categories=await category_choice(call.catalog, project.record.id, call.record.category),
        tags=await tag_choice(call.catalog, project.record.id, call.record.tags),
        players=await call.catalog.players.find_page(
            project.record.id, sort=BY_NAME, size=MOST_CHOICES
        ),
        countries=COUNTRIES,
        boxes=SELECTABLE_BOXES,
        obs_sizes=_OBS_SIZES,
        obs_default=DEFAULT_LABEL,
    )


def _policy(service: ResolvedPolicy, *owners: OwnerSettings) -> ResolvedPolicy:
    """Return what runs do; the settings of the last owner count most."""
    policy = service
    for owner in owners:
        own = RunPolicy[None](failover=owner.failover, latency=owner.latency)
        policy = resolve(own, policy)
    return policy


async def _since(catalog: Catalog, stream: StreamRecord, state: str) -> int | None:
    """Return since when the stream has been in its state, in microseconds; None if unknown."""
    if state not in ("live", "slate", "paused"):
        return None
    kinds = ON_AIR_EVENTS if state == "live" else SLATE_EVENTS
    event = await catalog.events.find_newest(stream.project, stream.hash, kinds)
    return None if event is None else event.created_us
