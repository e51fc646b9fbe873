import msgspec
import pytest

from ingest.stream.failover import (
    LOW_LATENCY_POLICY,
    Health,
    Mode,
    Policy,
    decide,
    is_healthy,
)
from media.stream_keys import Slot

PRIMARY, BACKUP, SECOND = Slot(0), Slot(1), Slot(2)
NOW = 1000.0


def source(
    *, well: float = 60.0, silent: float = 0.0, playable: bool = True, **other: bool
) -> Health:
    """Return a source that was healthy for `well` seconds, then silent for `silent` seconds."""
    return Health(
        steady_since=NOW - silent - well, last_media=NOW - silent, playable=playable, **other
    )


WELL = source()
STALLED = source(silent=2.0)
FRESH = source(well=9.9)
RETURNED = source(well=10.0)
OLD = Health(steady_since=NOW - 60, last_media=NOW, last_late=NOW - 9.9, playable=True)
IN_TIME = Health(steady_since=NOW - 60, last_media=NOW, last_late=NOW - 10.0, playable=True)
NO_KEYFRAME = source(playable=False)
MUTE = Health(steady_since=None, last_media=None, playable=False)
RADIO = source(continues_run=False, has_picture=False)
FILM = source(continues_run=False, has_picture=True)
EARLY = source(well=1.4)
CUT = Health(steady_since=NOW - 60, last_media=NOW, cut_off_at=NOW - 2.0, playable=True)
JUST_CUT = Health(steady_since=NOW - 60, last_media=NOW, cut_off_at=NOW - 1.9, playable=True)


@pytest.mark.parametrize(
    ("on_air", "slots", "wanted"),
    [
        pytest.param(None, {}, None, id="nobody is here"),
        pytest.param(None, {PRIMARY: MUTE}, None, id="nobody has sent anything"),
        pytest.param(None, {PRIMARY: NO_KEYFRAME}, None, id="nothing that can be decoded yet"),
        pytest.param(None, {PRIMARY: WELL}, PRIMARY, id="the primary begins"),
        pytest.param(None, {BACKUP: WELL}, BACKUP, id="a backup alone begins"),
        pytest.param(None, {BACKUP: WELL, PRIMARY: WELL}, PRIMARY, id="both begin"),
        pytest.param(None, {BACKUP: WELL, PRIMARY: STALLED}, BACKUP, id="the better one begins"),
        pytest.param(None, {PRIMARY: STALLED}, None, id="a stalled one does not begin"),
        pytest.param(PRIMARY, {PRIMARY: WELL, BACKUP: WELL}, PRIMARY, id="all is well"),
        pytest.param(PRIMARY, {BACKUP: WELL}, BACKUP, id="the primary is lost"),
        pytest.param(PRIMARY, {}, None, id="the primary is lost and nobody is there"),
        pytest.param(PRIMARY, {BACKUP: MUTE}, None, id="a backup that sends nothing is none"),
        pytest.param(PRIMARY, {BACKUP: NO_KEYFRAME}, None, id="a backup before its keyframe"),
        pytest.param(PRIMARY, {PRIMARY: STALLED, BACKUP: WELL}, BACKUP, id="the primary stalls"),
        pytest.param(PRIMARY, {PRIMARY: STALLED}, None, id="it stalls and is the only one"),
        pytest.param(PRIMARY, {PRIMARY: STALLED, BACKUP: STALLED}, None, id="both stall"),
        pytest.param(PRIMARY, {SECOND: WELL, BACKUP: WELL}, BACKUP, id="the lowest number first"),
        pytest.param(PRIMARY, {SECOND: WELL, BACKUP: STALLED}, SECOND, id="the next that is well"),
        pytest.param(PRIMARY, {SECOND: WELL, BACKUP: RADIO}, SECOND, id="no picture comes last"),
        pytest.param(PRIMARY, {BACKUP: RADIO}, BACKUP, id="no picture is better than nothing"),
        pytest.param(PRIMARY, {PRIMARY: NO_KEYFRAME, BACKUP: WELL}, PRIMARY, id="it begins anew"),
        pytest.param(BACKUP, {PRIMARY: FRESH, BACKUP: WELL}, BACKUP, id="no flapping"),
        pytest.param(BACKUP, {PRIMARY: RETURNED, BACKUP: WELL}, PRIMARY, id="the primary is back"),
        pytest.param(BACKUP, {PRIMARY: OLD, BACKUP: WELL}, BACKUP, id="it still makes up"),
        pytest.param(BACKUP, {PRIMARY: IN_TIME, BACKUP: WELL}, PRIMARY, id="it has made up"),
        pytest.param(BACKUP, {PRIMARY: OLD}, PRIMARY, id="old media beats none"),
        pytest.param(BACKUP, {PRIMARY: FRESH, BACKUP: STALLED}, PRIMARY, id="any beats a stall"),
        pytest.param(BACKUP, {PRIMARY: FRESH}, PRIMARY, id="any beats none"),
        pytest.param(BACKUP, {PRIMARY: STALLED, BACKUP: WELL}, BACKUP, id="it is still stalled"),
        pytest.param(BACKUP, {PRIMARY: RADIO, BACKUP: WELL}, BACKUP, id="back, without a picture"),
        pytest.param(BACKUP, {PRIMARY: FILM, BACKUP: WELL}, PRIMARY, id="back, with the picture"),
        pytest.param(SECOND, {BACKUP: WELL, SECOND: WELL}, SECOND, id="backups are all the same"),
        pytest.param(None, {PRIMARY: FRESH, BACKUP: WELL}, PRIMARY, id="any beats the slate"),
        pytest.param(None, {PRIMARY: EARLY}, PRIMARY, id="the slate waits for nobody to settle"),
        pytest.param(None, {BACKUP: EARLY}, BACKUP, id="nor for the primary, once there was one"),
        pytest.param(None, {PRIMARY: RADIO}, PRIMARY, id="another run is better than the slate"),
        pytest.param(PRIMARY, {PRIMARY: JUST_CUT, BACKUP: WELL}, PRIMARY, id="a drill begins"),
        pytest.param(PRIMARY, {PRIMARY: CUT, BACKUP: WELL}, BACKUP, id="a drill's cut is a stall"),
        pytest.param(BACKUP, {PRIMARY: WELL, BACKUP: CUT}, PRIMARY, id="a backup's drill"),
        pytest.param(PRIMARY, {PRIMARY: CUT}, None, id="a drill whose standby went away"),
        pytest.param(
            BACKUP,
            {PRIMARY: source(playable=False), BACKUP: WELL},
            BACKUP,
            id="back, before its keyframe",
        ),
    ],
)
def test_the_decision_which_slot_is_on_air(
    on_air: Slot | None, slots: dict[Slot, Health], wanted: Slot | None
) -> None:
    assert decide(NOW, on_air, slots, Policy()) == wanted


@pytest.mark.parametrize(
    ("slots", "wanted"),
    [
        pytest.param({PRIMARY: source(silent=0.69), BACKUP: WELL}, PRIMARY, id="a late packet"),
        pytest.param({PRIMARY: source(silent=0.7), BACKUP: WELL}, BACKUP, id="a stall"),
        pytest.param({PRIMARY: source(silent=1.9)}, PRIMARY, id="alone it may recover"),
        pytest.param({PRIMARY: source(silent=2.0)}, None, id="but not for long"),
        pytest.param(
            {PRIMARY: source(silent=1.9), BACKUP: source(silent=0.7)}, PRIMARY, id="both stall"
        ),
        pytest.param(
            {PRIMARY: source(silent=2.0), BACKUP: source(silent=0.7)}, None, id="for good"
        ),
        pytest.param(
            {PRIMARY: source(silent=1.9), BACKUP: source(silent=0.6)}, BACKUP, id="one comes back"
        ),
        pytest.param(
            {PRIMARY: source(silent=1.9), BACKUP: source(well=0.6)}, PRIMARY, id="just now"
        ),
        pytest.param({PRIMARY: source(silent=2.0), BACKUP: source(well=0.1)}, BACKUP, id="later"),
        pytest.param(
            {PRIMARY: source(silent=1.9), BACKUP: NO_KEYFRAME}, PRIMARY, id="without a keyframe"
        ),
        pytest.param(
            {PRIMARY: source(silent=1.9), BACKUP: RADIO}, PRIMARY, id="a stall ends no run"
        ),
        pytest.param({PRIMARY: source(silent=2.0), BACKUP: RADIO}, BACKUP, id="a failure does"),
        pytest.param({BACKUP: RADIO}, BACKUP, id="a lost connection is known at once"),
        pytest.param({}, None, id="and nobody is there"),
    ],
)
def test_at_low_latency_a_short_stall_causes_a_switch(
    slots: dict[Slot, Health], wanted: Slot | None
) -> None:
    assert decide(NOW, PRIMARY, slots, LOW_LATENCY_POLICY) == wanted


def radio(began: float) -> Health:
    """Return a source without a picture whose media began so many seconds ago."""
    return msgspec.structs.replace(RADIO, began=NOW - began)


@pytest.mark.parametrize(
    ("on_air", "slots", "seen", "wanted"),
    [
        pytest.param(None, {PRIMARY: radio(4)}, 50, None, id="its picture may follow"),
        pytest.param(None, {PRIMARY: radio(11.9)}, 70, None, id="even late in the window"),
        pytest.param(None, {PRIMARY: radio(12)}, 60, PRIMARY, id="no picture is expected"),
        pytest.param(None, {PRIMARY: RADIO}, 60, None, id="nothing of it is known"),
        pytest.param(None, {BACKUP: radio(900)}, 59, None, id="the primary may return"),
        pytest.param(None, {BACKUP: radio(900)}, 60, BACKUP, id="it does not return"),
        pytest.param(PRIMARY, {BACKUP: radio(900)}, 0, None, id="the slate first"),
        pytest.param(
            PRIMARY, {PRIMARY: STALLED, BACKUP: radio(900)}, 2, None, id="instead of a stalled one"
        ),
        pytest.param(None, {PRIMARY: radio(4), BACKUP: WELL}, 50, BACKUP, id="a picture is there"),
        pytest.param(None, {PRIMARY: radio(4)}, None, PRIMARY, id="the run has no picture"),
    ],
)
def test_a_source_without_a_picture_waits_while_the_run_may_get_its_picture_back(
    on_air: Slot | None, slots: dict[Slot, Health], seen: float | None, wanted: Slot | None
) -> None:
    picture_seen = None if seen is None else NOW - seen
    assert decide(NOW, on_air, slots, Policy(), picture_seen=picture_seen) == wanted


SOUND = source(has_picture=False)


@pytest.mark.parametrize(
    ("slots", "wanted"),
    [
        pytest.param({PRIMARY: SOUND}, PRIMARY, id="it is alone"),
        pytest.param({PRIMARY: SOUND, BACKUP: EARLY}, BACKUP, id="a backup has a picture"),
        pytest.param({BACKUP: SOUND, SECOND: WELL}, SECOND, id="of two backups"),
        pytest.param({PRIMARY: NO_KEYFRAME, BACKUP: EARLY}, None, id="the primary's may follow"),
        pytest.param(
            {PRIMARY: source(playable=False, has_picture=False), BACKUP: EARLY},
            None,
            id="the primary has only connected",
        ),
    ],
)
def test_a_run_begins_with_a_picture_if_a_source_has_one(
    slots: dict[Slot, Health], wanted: Slot | None
) -> None:
    assert decide(NOW, None, slots, Policy(), run_begins=True) == wanted


@pytest.mark.parametrize(
    ("slots", "wanted"),
    [
        ({PRIMARY: RETURNED, BACKUP: WELL}, BACKUP),
        ({PRIMARY: RETURNED, BACKUP: STALLED}, PRIMARY),
        ({PRIMARY: RETURNED}, PRIMARY),
    ],
)
def test_a_sticky_stream_stays_with_a_backup_that_is_well(
    slots: dict[Slot, Health], wanted: Slot
) -> None:
    assert decide(NOW, BACKUP, slots, Policy(mode=Mode.STICKY)) == wanted


@pytest.mark.parametrize("on_air", [None, PRIMARY, BACKUP])
@pytest.mark.parametrize("begins", [True, False])
def test_no_slot_is_on_air_while_the_owner_pauses(on_air: Slot | None, begins: bool) -> None:
    slots = {PRIMARY: WELL, BACKUP: WELL}
    assert decide(NOW, on_air, slots, Policy(), paused=True, run_begins=begins) is None


@pytest.mark.parametrize(
    ("slots", "wanted"),
    [
        pytest.param({BACKUP: EARLY}, None, id="a backup waits"),
        pytest.param({BACKUP: source(well=1.5)}, BACKUP, id="but not for long"),
        pytest.param({BACKUP: EARLY, PRIMARY: MUTE}, None, id="the primary says what it has"),
        pytest.param({BACKUP: EARLY, PRIMARY: NO_KEYFRAME}, None, id="and gets its keyframe"),
        pytest.param({BACKUP: EARLY, PRIMARY: EARLY}, PRIMARY, id="the primary at once"),
        pytest.param({BACKUP: WELL, PRIMARY: EARLY}, PRIMARY, id="however late"),
        pytest.param({BACKUP: WELL, PRIMARY: MUTE}, BACKUP, id="a primary that takes too long"),
        pytest.param({BACKUP: MUTE, SECOND: WELL}, SECOND, id="backups do not wait for each other"),
    ],
)
def test_a_backup_lets_the_primary_begin_a_run(
    slots: dict[Slot, Health], wanted: Slot | None
) -> None:
    assert decide(NOW, None, slots, Policy(), run_begins=True) == wanted


@pytest.mark.parametrize("policy", [Policy(), LOW_LATENCY_POLICY])
def test_a_decision_is_stable_while_nothing_changes(policy: Policy) -> None:
    """Decisions depend on levels only: the chosen slot stays while nothing changes."""
    healths = (None, MUTE, WELL, STALLED, FRESH, RETURNED, NO_KEYFRAME, RADIO, FILM, CUT, EARLY)
    healths += (source(silent=1.0),)
    for first in healths:
        for second in healths:
            healths_by_slot = {PRIMARY: first, BACKUP: second}
            slots = {slot: health for slot, health in healths_by_slot.items() if health is not None}
            for on_air in (None, PRIMARY, BACKUP):
                for paused, begins in ((False, False), (True, False), (False, True)):
                    options = {"paused": paused, "run_begins": begins}
                    chosen = decide(NOW, on_air, slots, policy, **options)
                    again = decide(NOW, chosen, slots, policy, **options)
                    # After a switch to the backup, the primary may be preferred for its picture.
                    assert again == chosen or (chosen, again) == (BACKUP, PRIMARY)
                    assert decide(NOW, again, slots, policy, **options) == again


def test_a_source_that_is_silent_for_the_detection_time_has_failed() -> None:
    policy = Policy(detect_seconds=3.0)
    assert is_healthy(NOW, source(silent=2.9), policy)
    assert not is_healthy(NOW, source(silent=3.0), policy)
    assert not is_healthy(NOW, None, policy)


def showing(seconds: float, last: float | None = None) -> Health:
    """Return a source that sends, and shows a fault for so long, or showed one `last` s ago."""
    seen = NOW - (last or 0.0) if seconds or last is not None else None
    return msgspec.structs.replace(WELL, fault_seconds=seconds, last_fault=seen)


SWITCHES = Policy(quality_seconds=3.0)


@pytest.mark.parametrize(
    ("policy", "primary", "backup", "switched", "wanted"),
    [
        (SWITCHES, showing(3.0), WELL, -600.0, BACKUP),
        (SWITCHES, showing(2.9), WELL, -600.0, PRIMARY),
        (Policy(), showing(60.0), WELL, -600.0, PRIMARY),
        (SWITCHES, showing(60.0), WELL, -599.0, PRIMARY),
        (SWITCHES, showing(60.0), showing(0.5), -600.0, PRIMARY),
        (SWITCHES, showing(60.0), NO_KEYFRAME, -600.0, PRIMARY),
        (SWITCHES, showing(60.0), RADIO, -600.0, PRIMARY),
        (SWITCHES, showing(60.0), source(well=1.9), -600.0, PRIMARY),
    ],
)
def test_a_source_that_shows_a_fault_is_replaced_by_one_that_shows_none(
    policy: Policy, primary: Health, backup: Health, switched: float, wanted: Slot
) -> None:
    slots = {PRIMARY: primary, BACKUP: backup}
    assert decide(NOW, PRIMARY, slots, policy, quality_switched_at=NOW + switched) == wanted


@pytest.mark.parametrize(
    ("policy", "primary", "wanted"),
    [
        (SWITCHES, showing(3.0), BACKUP),
        (SWITCHES, showing(0.0, last=9.9), BACKUP),
        (SWITCHES, showing(0.0, last=10.0), PRIMARY),
        (Policy(), showing(0.0, last=0.1), PRIMARY),
    ],
)
def test_a_primary_returns_once_it_has_shown_no_fault_for_long_enough(
    policy: Policy, primary: Health, wanted: Slot
) -> None:
    slots = {PRIMARY: primary, BACKUP: WELL}
    assert decide(NOW, BACKUP, slots, policy, quality_switched_at=NOW - 30) == wanted
