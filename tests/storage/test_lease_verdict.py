"""What a start does about the lease of its store, sight by sight."""

import msgspec
import pytest

from storage.catalog.projects.store_claims import StoreClaim
from storage.lease_verdict import MediaLease, Sight, StoreElsewhere, StoreInUse, Verdict, judge

EXPIRED = 90.0
OLD, YOUNG = 91.0, 1.0


def lease(turn: str, *, beat: str = "1", place: str = "here", store: str = "disk") -> MediaLease:
    return MediaLease(turn=turn, beat=beat, host="one", catalog="db", place=place, store=store)


def sight(
    found: MediaLease | None, turn: str = "", *, next_turn: str = "", age: float = OLD
) -> Sight:
    claim = StoreClaim(turn=turn, next_turn=next_turn, age=age)
    return Sight(lease=found, claim=claim, turns=claim.turns)


RELEASED = msgspec.structs.replace(lease("b"), released=True)


def verdict(now: Sight, first: Sight | None = None, *, lease_age: float = YOUNG) -> Verdict:
    return judge(
        first, now, place="here", store="disk", lease_age=lease_age, expired_seconds=EXPIRED
    )


@pytest.mark.parametrize(
    ("now", "lease_age", "expected"),
    [
        pytest.param(sight(None), YOUNG, Verdict.FREE, id="a store that never had a lease"),
        pytest.param(sight(lease("a"), "a"), YOUNG, Verdict.OURS, id="a restart"),
        pytest.param(
            sight(lease("b"), "a", next_turn="b"), YOUNG, Verdict.OURS, id="killed while it wrote"
        ),
        pytest.param(
            sight(lease("a"), "a", next_turn="b"), YOUNG, Verdict.OURS, id="killed before it wrote"
        ),
        pytest.param(sight(lease("a", place=""), "a"), YOUNG, Verdict.OURS, id="a moved catalog"),
        pytest.param(sight(lease("b"), "a"), YOUNG, Verdict.WAIT, id="an older copy"),
        pytest.param(sight(lease("b"), "a"), OLD, Verdict.FREE, id="a restore after a death"),
        pytest.param(sight(RELEASED, "a"), YOUNG, Verdict.FREE, id="a restore after a clean stop"),
        pytest.param(
            sight(RELEASED, "a", age=YOUNG), YOUNG, Verdict.WAIT, id="of a copy of just now"
        ),
        pytest.param(sight(RELEASED, "b"), YOUNG, Verdict.OURS, id="a start after a clean stop"),
        pytest.param(
            sight(lease("a", place="there"), "a"), YOUNG, Verdict.WAIT, id="a copy of this moment"
        ),
        pytest.param(
            sight(lease("a", place="there"), "a"), OLD, Verdict.FREE, id="moved some time ago"
        ),
        pytest.param(
            sight(lease("a", store="original"), "a", age=YOUNG), OLD, Verdict.WAIT,
            id="a copied folder beside the database",
        ),
        pytest.param(
            sight(lease("b", store="original"), "a", age=OLD), OLD, Verdict.FREE,
            id="a restored folder",
        ),
        pytest.param(
            sight(lease("b", place="there", store="original"), "a", age=YOUNG), YOUNG,
            Verdict.FREE, id="a copy of everything",
        ),
        pytest.param(sight(None, "a", age=YOUNG), OLD, Verdict.WAIT, id="another, empty store"),
        pytest.param(sight(None, "a", age=OLD), OLD, Verdict.FREE, id="a store emptied long ago"),
        pytest.param(sight(MediaLease(), "", age=OLD), YOUNG, Verdict.WAIT, id="unreadable"),
    ],
)  # fmt: skip
def test_the_first_look(now: Sight, lease_age: float, expected: Verdict) -> None:
    assert verdict(now, lease_age=lease_age) is expected


@pytest.mark.parametrize(
    ("first", "now", "expected"),
    [
        pytest.param(
            sight(lease("b"), "a"), sight(lease("b"), "a"), Verdict.WAIT, id="nothing happened"
        ),
        pytest.param(
            sight(lease("b"), "a"), sight(lease("c"), "a"), Verdict.IN_USE, id="it was renewed"
        ),
        pytest.param(
            sight(lease("b"), "a"), sight(lease("b", beat="2"), "a"), Verdict.IN_USE,
            id="it was renewed while the original's database is away",
        ),
        pytest.param(
            sight(lease("a", place="there"), "a"), sight(lease("b", place="there"), "a"),
            Verdict.IN_USE, id="the original of this moment's copy lives",
        ),
        pytest.param(
            sight(lease("a", place="there"), "a"), sight(lease("b", place="there"), "b"),
            Verdict.OURS, id="the same database by another name",
        ),
        pytest.param(
            sight(lease("a", store="original"), "a", age=YOUNG),
            sight(lease("a", store="original"), "b", age=YOUNG),
            Verdict.ELSEWHERE, id="the database's processes have another folder",
        ),
        pytest.param(
            sight(lease("b"), "a", age=YOUNG), sight(lease("b"), "b", age=YOUNG), Verdict.OURS,
            id="a replica that was behind has caught up",
        ),
    ],
)  # fmt: skip
def test_a_later_look(first: Sight, now: Sight, expected: Verdict) -> None:
    assert verdict(now, first) is expected


def test_refusals_say_what_to_do_in_one_sentence() -> None:
    in_use = str(StoreInUse("s3://bucket/x", "copy.sqlite", lease("b"), EXPIRED))
    assert "another copy of the database at copy.sqlite, that at db on one: stop" in in_use
    assert "`headend take-over`" in in_use
    elsewhere = str(StoreElsewhere("/copy/objects", "db"))
    assert "db is in use with other media than those in /copy/objects" in elsewhere
    for sentence in (in_use, elsewhere):
        assert ". " not in sentence
        assert not sentence.endswith(".")
