from hypothesis import given
from hypothesis import strategies as st

from ingest.server.log_throttle import EACH_CAUSE, EACH_SITE, PERIOD_SECONDS, Complaints, Summed


def lines(book: Complaints, site: str, count: int, now: float, cause: str = "wrong key") -> int:
    return sum(book.worth_a_line("refused", cause, site, now) for _ in range(count))


def test_the_first_of_a_site_are_told_and_the_rest_summed_once_a_period() -> None:
    book = Complaints()
    assert lines(book, "a", 417, 10.0) == EACH_SITE == 5
    assert book.due(10.0 + PERIOD_SECONDS - 0.1) == []
    assert book.due(10.0 + PERIOD_SECONDS) == [Summed("refused", "wrong key", 412, 60.0)]
    assert book.due(10.0 + 2 * PERIOD_SECONDS) == []


def test_the_next_period_tells_the_first_again() -> None:
    book = Complaints()
    lines(book, "a", 100, 0.0)
    book.due(60.0)
    assert lines(book, "a", 100, 60.5) == EACH_SITE


def test_what_is_told_whole_is_not_summed() -> None:
    book = Complaints()
    assert lines(book, "a", EACH_SITE, 0.0) == EACH_SITE
    assert book.due(60.0) == []


def test_a_flood_from_one_site_leaves_lines_for_another() -> None:
    book = Complaints()
    lines(book, "flood", 10_000, 0.0)
    assert lines(book, "studio", 3, 1.0) == 3


def test_causes_and_kinds_of_lines_are_counted_apart() -> None:
    book = Complaints()
    lines(book, "a", 10, 0.0)
    assert lines(book, "a", 10, 0.0, cause="occupied") == EACH_SITE
    assert book.worth_a_line("closed", "wrong key", "a", 0.0)
    assert {(one.what, one.cause, one.count) for one in book.due(60.0)} == {
        ("refused", "wrong key", 5),
        ("refused", "occupied", 5),
    }


def test_a_flood_from_many_sites_has_so_many_lines_and_takes_no_memory() -> None:
    book = Complaints()
    told = sum(lines(book, f"site {number}", 2, 0.0) for number in range(100_000))
    assert told == EACH_CAUSE
    (period,) = book._periods.values()  # pyright: ignore[reportPrivateUsage]  # memory is the point
    assert len(period.sites) <= EACH_CAUSE
    assert book.due(60.0)[0].count == 200_000 - EACH_CAUSE
    assert not book._periods  # pyright: ignore[reportPrivateUsage]  # as above


def test_the_end_tells_what_is_left() -> None:
    book = Complaints()
    lines(book, "a", 8, 5.0)
    assert book.rest(17.5) == [Summed("refused", "wrong key", 3, 12.5)]
    assert book.rest(18.0) == []


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20), st.sampled_from("abcdefgh"), st.sampled_from(["x", "y"])
        ),
        max_size=300,
    )
)  # fmt: skip
def test_every_refusal_is_told_or_summed(told: list[tuple[float, str, str]]) -> None:
    book = Complaints()
    now, counted = 0.0, 0
    for step, site, cause in told:
        now += step
        counted += sum(one.count for one in book.due(now))
        counted += book.worth_a_line("refused", cause, site, now)
    counted += sum(one.count for one in book.rest(now))
    assert counted == len(told)
