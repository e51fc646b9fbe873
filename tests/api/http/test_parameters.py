"""Record numbers in paths, and lists in pages."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.errors import ApiError
from api.http.parameters import envelope, missing, number_of, read_query
from api.schemas.common import Listing
from storage.catalog.records.common import Page, Sort


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("42", 42), ("9999999999", 9_999_999_999)])
def test_a_record_has_a_number_from_one_up(text: str, number: int) -> None:
    assert number_of(text, "stream") == number


@pytest.mark.parametrize("text", ["", "0", "01", "-1", "+1", "1.0", "1e3", "٣", " 1", "1" * 11])
def test_any_other_text_is_a_record_that_does_not_exist(text: str) -> None:
    with pytest.raises(ApiError, match=r"There is no such stream\.") as caught:
        number_of(text, "stream")
    assert caught.value.status_code == missing("stream").status_code == 404


PATH = "https://live.example/api/projects/1/streams"


def _page(number: int, total: int) -> Listing[int]:
    items = tuple(range(total))[(number - 1) * 10 : number * 10]
    page = Page(items=items, total=total, number=number, size=10)
    return envelope(page, list(items), path=PATH, filters=())


def _number(url: str | None) -> int | None:
    return None if url is None else int(dict(parse_qsl(urlsplit(url).query))["page"])


@pytest.mark.parametrize(
    ("number", "total", "prev", "following", "last", "first_and_last_record"),
    [
        pytest.param(1, 0, None, None, 1, (None, None), id="nothing at all"),
        pytest.param(1, 1, None, None, 1, (1, 1), id="one"),
        pytest.param(1, 10, None, None, 1, (1, 10), id="one full page"),
        pytest.param(1, 11, None, 2, 2, (1, 10), id="the first of two"),
        pytest.param(2, 11, 1, None, 2, (11, 11), id="the last of two"),
        pytest.param(2, 35, 1, 3, 4, (11, 20), id="in the middle"),
        pytest.param(5, 35, 4, None, 4, (None, None), id="one beyond"),
        pytest.param(99, 35, 4, None, 4, (None, None), id="far beyond"),
        pytest.param(99, 0, 1, None, 1, (None, None), id="beyond nothing"),
    ],
)
def test_a_page_knows_its_neighbours(
    number: int,
    total: int,
    prev: int | None,
    following: int | None,
    last: int,
    first_and_last_record: tuple[int | None, int | None],
) -> None:
    page = _page(number, total)
    assert (_number(page.links.prev), _number(page.links.next)) == (prev, following)
    assert (_number(page.links.first), _number(page.links.last)) == (1, last)
    assert page.meta.last_page == last
    assert (page.meta.from_, page.meta.to) == first_and_last_record
    assert (page.meta.current_page, page.meta.total, page.meta.per_page) == (number, total, 10)
    assert page.meta.path == PATH


@given(st.integers(1, 30), st.integers(0, 200))
def test_the_page_bar_has_an_entry_for_each_page_between_its_two_ends(
    number: int, total: int
) -> None:
    meta = _page(number, total).meta
    before, *pages, after = meta.links
    assert (before.label, after.label) == ("« Previous", "Next »")
    assert [link.label for link in pages] == [str(n + 1) for n in range(meta.last_page)]
    assert [_number(link.url) for link in pages] == list(range(1, meta.last_page + 1))
    active = [link.label for link in meta.links if link.active]
    assert active == ([str(number)] if number <= meta.last_page else [])


def test_links_lead_back_to_the_same_question() -> None:
    query = read_query(
        search="a&b=ä %", sort_column="title", sort_order=None, page="2", columns=("id", "title")
    )
    assert query.sort == Sort("title", descending=False)
    second_of_three: Page[int] = Page(items=(), total=30, number=query.page, size=10)
    data: list[int] = []
    page = envelope(second_of_three, data, path=PATH, filters=query.filters)
    assert page.links.next is not None
    assert parse_qsl(urlsplit(page.links.next).query) == [
        ("search", "a&b=ä %"),
        ("sort_column", "title"),
        ("page", "3"),
    ]


@given(st.text(max_size=30))
def test_any_text_is_a_page_from_1_up_or_is_refused(text: str) -> None:
    try:
        query = read_query(
            search=None, sort_column=None, sort_order=None, page=text, columns=("id",)
        )
    except ApiError as error:
        assert error.errors is not None
        assert set(error.errors) == {"page"}
    else:
        assert query.page >= 1
        assert str(query.page) == text
