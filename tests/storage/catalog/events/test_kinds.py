"""The one list of kinds: nothing else can be recorded, and what is stored stays as it is."""

from collections.abc import Iterator

import msgspec
import pytest

from media.stream_events import OwnerEvent
from storage.catalog.events import kinds
from storage.catalog.events.kinds import EVENTS, LABEL_EVENTS, STATES

LISTED = [kind for section in EVENTS.values() for kind in section]


def _kinds(of: type[OwnerEvent] = OwnerEvent) -> Iterator[type[OwnerEvent]]:
    """Return all types of events that are something: those that have a stored name."""
    for each in of.__subclasses__():
        if each.__struct_config__.tag is not None and not each.__module__.startswith("tests"):
            yield each
        yield from _kinds(each)


def test_every_kind_is_listed_once_and_has_a_name_of_its_own() -> None:
    assert sorted(each.__name__ for each in (*LISTED, *STATES)) == sorted(
        each.__name__ for each in _kinds()
    )
    names = [each.stored_kind() for each in LISTED]
    assert len({*names}) == len(names)
    assert max(map(len, names)) <= 40, "the width of the column"


def test_a_class_is_called_as_its_events_are() -> None:
    by_noun = {kind for each in LABEL_EVENTS.values() for kind in msgspec.structs.astuple(each)}
    for each in {*LISTED} - by_noun:
        words = each.stored_kind().split()
        assert each.__name__ == f"{''.join(map(str.capitalize, words))}Event"


def test_what_is_listed_is_logged_and_the_states_are_not() -> None:
    assert all(each.is_logged for each in LISTED)
    assert not any(each.is_logged for each in STATES)
    assert all(each.is_broadcast for each in STATES)


@pytest.mark.parametrize("noun", LABEL_EVENTS)
def test_the_events_of_labels_name_them_by_their_noun(noun: str) -> None:
    events = LABEL_EVENTS[noun]
    added, deleted = events.added(label=7, name="é"), events.deleted(label=7, name="é")
    edited = events.edited(label=7, keys=["name"])
    assert [each.kind for each in (added, edited, deleted)] == [
        f"{noun} {what}" for what in ("added", "edited", "deleted")
    ]
    assert list(added.facts.items()) == list(deleted.facts.items()) == [(noun, 7), ("name", "é")]
    assert list(edited.facts.items()) == [(noun, 7), ("keys", ["name"])]


def test_facts_keep_their_order() -> None:
    drill = kinds.FailoverDrillEvent(
        stream=1, from_="primary", to="backup-1", gap_ms=2, switched_after_ms=3
    )
    assert list(drill.facts) == ["stream", "from", "to", "gap_ms", "switched_after_ms"]
    resumed = kinds.ResumedEvent(stream=1, cause="its run was over")
    assert list(resumed.facts) == ["stream", "cause"]
    assert kinds.PublishedEvent(stream=1).facts == {"stream": 1}
    assert kinds.UploadDeletedEvent().facts == {}
    assert kinds.BytesReceived(received_bytes=1, size=None).facts == {
        "received_bytes": 1, "size": None,
    }  # fmt: skip
