"""The interface's lists, page by page; what is searched and ordered by, on both databases."""

from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import pytest

from storage.catalog.records.common import Change
from tests.api.test_contract import call
from tests.support.api import contract_shapes
from tests.support.api.application import NOW_US, STREAMS, ApiService, Json
from tests.support.api.contract_shapes import faults
from tests.support.api.upload_clips import VIDEOS
from tests.support.shared_engines import mostly_on
from tests.support.storage.new_videos import new_video

BASE = "https://live.example"
TAGS = "/api/projects/1/tags"
CATEGORIES = "/api/projects/1/categories"
DAY_US = 86_400_000_000
# The beginning of 14 November 2023, the day of NOW_US.
TODAY_US = NOW_US - NOW_US % DAY_US


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


class ListedEndpoint(msgspec.Struct, frozen=True):
    """A documented list: its address, the shape of its pages, its orders and filters."""

    path: str
    shape: Json
    size: int
    first: tuple[str, ...] = ()  # what a new project has in it


LISTS = {
    "videos": ListedEndpoint(VIDEOS, contract_shapes.LIST_VIDEOS, 30),
    "streams": ListedEndpoint(STREAMS, contract_shapes.LIST_STREAMS, 10, ("My first stream",)),
    "tags": ListedEndpoint(TAGS, contract_shapes.LIST_LABELS, 10),
    "categories": ListedEndpoint(CATEGORIES, contract_shapes.LIST_LABELS, 10),
}


async def add(api_service: ApiService, kind: str, name: str, now_us: int = NOW_US) -> None:
    """Add a record with this title or name; videos have no file, since only lists are tested."""
    if kind == "videos":
        file = new_video(title=name)
        await api_service.catalog.videos.add(1, file, Change(now_us))
    elif kind == "streams":
        await api_service.add(name)
    else:
        await call(api_service, "POST", LISTS[kind].path, {"name": name}, 201)


def names(body: Json) -> list[str]:
    return [item["title" if "title" in item else "name"] for item in body["data"]]


def expected_envelope(path: str, filters: Json, size: int, number: int, total: int) -> Json:
    """Return the expected `links` and `meta` of a page, computed independently."""
    last = -(-total // size) or 1

    def url(page: int) -> str:
        return f"{BASE}{path}?{urlencode([*filters.items(), ('page', page)])}"

    prev = None if number == 1 else url(min(number - 1, last))
    following = None if number >= last else url(number + 1)
    empty = (number - 1) * size >= total
    return {
        "links": {"first": url(1), "last": url(last), "prev": prev, "next": following},
        "meta": {
            "current_page": number,
            "from": None if empty else (number - 1) * size + 1,
            "to": None if empty else min(number * size, total),
            "last_page": last,
            "per_page": size,
            "total": total,
            "path": BASE + path,
            "links": [
                {"url": prev, "label": "« Previous", "active": False},
                *(
                    {"url": url(page), "label": str(page), "active": page == number}
                    for page in range(1, last + 1)
                ),
                {"url": following, "label": "Next »", "active": False},
            ],
        },
    }


def same_links(body: Json, expected: Json) -> None:
    """Compare envelopes, regardless of the order of parameters in addresses."""

    def sorted_query(value: object) -> object:
        if isinstance(value, str) and value.startswith(BASE):
            parts = urlsplit(value)
            return parts.path, sorted(parse_qsl(parts.query, keep_blank_values=True))
        return value

    def normalized(envelope: Json) -> list[object]:
        links, meta = envelope["links"], dict(envelope["meta"])
        bar = [
            (sorted_query(each["url"]), each["label"], each["active"]) for each in meta.pop("links")
        ]
        return [{key: sorted_query(each) for key, each in links.items()}, meta, bar]

    assert normalized({"links": body["links"], "meta": body["meta"]}) == normalized(expected)


@mostly_on("sqlite")
@pytest.mark.parametrize("kind", LISTS)
async def test_pages_are_as_documented_from_the_first_to_beyond_the_end(
    api_service: ApiService, kind: str
) -> None:
    endpoint = LISTS[kind]
    # An empty list is one empty page, with or without a filter.
    for filters in ({"search": "nowhere & nobody"}, {} if not endpoint.first else {"search": "?"}):
        body = await call(api_service, "GET", f"{endpoint.path}?{urlencode(filters)}")
        assert faults(body, endpoint.shape) == []
        assert body["data"] == []
        same_links(body, expected_envelope(endpoint.path, filters, endpoint.size, 1, 0))
    total = 2 * endpoint.size + 1
    titles = list(endpoint.first)
    while len(titles) < total:
        titles.append(f"Number {len(titles):03}")
        await add(api_service, kind, titles[-1])
    newest = titles[::-1]
    for number in (1, 2, 3, 4, 9):
        body = await call(api_service, "GET", f"{endpoint.path}?page={number}")
        assert faults(body, endpoint.shape) == []
        start = (number - 1) * endpoint.size
        assert names(body) == newest[start : start + endpoint.size]
        same_links(body, expected_envelope(endpoint.path, {}, endpoint.size, number, total))
    assert await call(api_service, "GET", endpoint.path) == await call(
        api_service, "GET", f"{endpoint.path}?page=1"
    )
    # A filter reduces the count and is kept in every address; the links lead through all pages.
    filters = {"search": "nUMBER 0"} if kind == "videos" else {
        "search": "nUMBER 0", "sort_column": "id", "sort_order": "asc",
    }  # fmt: skip
    matching = sorted(
        (name for name in titles if name.startswith("Number 0")), reverse=len(filters) < 2
    )
    body = await call(api_service, "GET", f"{endpoint.path}?{urlencode(filters)}")
    listed = names(body)
    same_links(body, expected_envelope(endpoint.path, filters, endpoint.size, 1, len(matching)))
    while (following := body["links"]["next"]) is not None:
        body = await call(api_service, "GET", following.removeprefix(BASE))
        listed += names(body)
    assert listed == matching
    # A project named by its short string is named so in the addresses.
    path = endpoint.path.replace("/1/", f"/{api_service.key}/")
    body = await call(api_service, "GET", path)
    same_links(body, expected_envelope(path, {}, endpoint.size, 1, total))


@pytest.mark.parametrize("kind", LISTS)
async def test_a_search_takes_every_character_as_itself_whatever_the_case(
    api_service: ApiService, kind: str
) -> None:
    for name in ("100% Ștefan", "a_b", r"c\d", "Ünïcode & 日本", "plain"):
        await add(api_service, kind, name)
    for search, titles in (
        ("%", ["100% Ștefan"]), ("_", ["a_b"]), ("\\", [r"c\d"]), ("șTEF", ["100% Ștefan"]),
        ("ÜNÏ", ["Ünïcode & 日本"]), ("日", ["Ünïcode & 日本"]), ("&", ["Ünïcode & 日本"]),
        ("PLAIN", ["plain"]), ("a%b", []), ("a.b", []), ("' OR 1=1 --", []),
    ):  # fmt: skip
        body = await call(api_service, "GET", f"{LISTS[kind].path}?{urlencode({'search': search})}")
        assert names(body) == titles, search
        envelope = expected_envelope(
            LISTS[kind].path, {"search": search}, LISTS[kind].size, 1, len(titles)
        )
        same_links(body, envelope)


@pytest.mark.parametrize("kind", ["streams", "tags", "categories"])
async def test_lists_come_in_the_order_that_was_asked_for(
    api_service: ApiService, kind: str
) -> None:
    endpoint = LISTS[kind]
    titles = [*endpoint.first, "b", "Ä", "_", "A", "z", "C"]
    for name in titles[len(endpoint.first) :]:
        await add(api_service, kind, name)
    name = "title" if kind == "streams" else "name"
    by_name = sorted(titles, key=str.casefold)
    for query, order in (
        ("", titles[::-1]), ("?sort_column=id", titles), ("?sort_order=asc", titles),
        ("?sort_column=id&sort_order=desc", titles[::-1]), (f"?sort_column={name}", by_name),
        (f"?sort_column={name}&sort_order=desc", by_name[::-1]),
    ):  # fmt: skip
        assert names(await call(api_service, "GET", endpoint.path + query)) == order, query
    if kind != "streams":
        first, *_, last = (await call(api_service, "GET", f"{endpoint.path}?sort_column=id"))[
            "data"
        ]
        for each in (first, last):
            body = await call(api_service, "PUT", f"/api/{kind}/{each['id']}", {"active": False})
            assert body[{"tags": "tag"}.get(kind, "category")] == {**each, "active": False}
        active = (await call(api_service, "GET", f"{endpoint.path}?sort_column=active"))["data"]
        assert [each["active"] for each in active] == [False, False, True, True, True, True]
        active = (
            await call(api_service, "GET", f"{endpoint.path}?sort_column=active&sort_order=desc")
        )["data"]
        assert [each["active"] for each in active] == [True, True, True, True, False, False]


@mostly_on("sqlite")
async def test_days_are_whole_and_recent_is_a_week(api_service: ApiService) -> None:
    for name, moment_us in (
        ("week and more", NOW_US - 7 * DAY_US - 1),
        ("week", NOW_US - 7 * DAY_US),
        ("yesterday's last", TODAY_US - 1),
        ("today's first", TODAY_US),
        ("today's last", TODAY_US + DAY_US - 1),
        ("tomorrow's first", TODAY_US + DAY_US),
    ):
        await add(api_service, "videos", name, moment_us)
    for filters, titles in (
        ({"from": "2023-11-14", "to": "2023-11-14"}, ["today's last", "today's first"]),
        ({"from": "2023-11-13", "to": "2023-11-13"}, ["yesterday's last"]),
        ({"from": "2023-11-08", "to": "2023-11-13"}, ["yesterday's last"]),
        ({"from": "2023-11-15", "to": "9999-12-31"}, ["tomorrow's first"]),
        ({"from": "0001-01-01", "to": "2023-11-07"}, ["week", "week and more"]),
        ({"from": "2023-11-14", "to": "2023-11-13"}, []),
        ({"type": "completed"}, []),
        ({"type": "recent", "search": "WEEK"}, ["week"]),
        ({"type": "inprogress", "search": "week"}, ["week", "week and more"]),
        (
            {"type": "recent", "from": "2023-11-07", "to": "2023-11-13"},
            ["yesterday's last", "week"],
        ),
    ):
        body = await call(api_service, "GET", f"{VIDEOS}?{urlencode(filters)}")
        assert names(body) == titles, filters
        same_links(body, expected_envelope(VIDEOS, filters, 30, 1, len(titles)))


@mostly_on("sqlite")
async def test_our_own_lists_come_in_the_same_envelope(api_service: ApiService) -> None:
    """The keys of their items are those in our own description and on the page of decisions."""
    integer, string, boolean = (
        contract_shapes.INTEGER,
        contract_shapes.STRING,
        contract_shapes.BOOLEAN,
    )
    stamp, nullable = contract_shapes.STAMP, contract_shapes.Nullable
    for number in range(10):
        await call(api_service, "POST", "/api/projects", {"name": f"Number {number}"}, 201)
        await call(
            api_service, "POST", "/api/tokens", {"name": f"Number {number}", "project": 1}, 201
        )
        await call(
            api_service, "POST", "/api/projects/1/players", {"name": f"Number {number}"}, 201
        )
    for path, item, more in (
        ("/api/projects",
         {"id": integer, "key": string, "name": string, "created_at": stamp, "updated_at": stamp,
          "project_json": contract_shapes.URL, "origins": [string]}, 1),
        ("/api/tokens",
         {"id": integer, "name": string, "project": nullable(integer), "write": boolean,
          "created_at": stamp, "revoked_at": nullable(stamp),
          "created_by": nullable(integer)}, 1),
        ("/api/projects/1/players",
         {"id": integer, "name": string, "autoplay": boolean, "muted": boolean, "loop": boolean,
          "controls": boolean, "color": nullable(string), "created_at": stamp,
          "updated_at": stamp}, 0),
    ):  # fmt: skip
        for number in (1, 2, 3):
            body = await call(api_service, "GET", f"{path}?page={number}")
            assert faults(body, contract_shapes.listing(item)) == []
            same_links(body, expected_envelope(path, {}, 10, number, 10 + more))
    path = "/api/projects/1/events"
    filters = {"since": "2023-11-14T22:13:20.123456Z"}
    body = await call(api_service, "GET", f"{path}?{urlencode(filters)}")
    for item in body["data"]:
        assert faults({**item, "facts": 0}, {
            "id": integer, "number": nullable(integer), "type": string, "subject": string,
            "facts": integer, "token": nullable(integer), "created_at": stamp,
        }) == []  # fmt: skip
        assert isinstance(item["facts"], dict)
    same_links(body, expected_envelope(path, filters, 10, 1, body["meta"]["total"]))
    assert body["meta"]["total"] >= 20
    stream_filters = {**filters, "stream": "1"}
    stream_events = await call(api_service, "GET", f"{path}?{urlencode(stream_filters)}")
    assert {each["number"] for each in stream_events["data"]} >= {1}
    same_links(
        stream_events,
        expected_envelope(path, stream_filters, 10, 1, stream_events["meta"]["total"]),
    )
    refused = await call(api_service, "GET", f"{path}?since=x&page=0&stream=x", status=422)
    assert set(refused["errors"]) == {"since", "page", "stream"}
    assert [each["id"] for each in body["data"]] == sorted(
        (each["id"] for each in body["data"]), reverse=True
    )


_ANY: tuple[tuple[str, set[str]], ...] = (
    ("page=0", {"page"}), ("page=-1", {"page"}), ("page=1.5", {"page"}), ("page=", {"page"}),
    ("page=x", {"page"}), ("page=%2B1", {"page"}), ("page=" + "9" * 30, {"page"}),
    ("search=" + "x" * 256, {"search"}), ("search=%00", {"search"}),
)  # fmt: skip
_SORTED: tuple[tuple[str, set[str]], ...] = (
    ("sort_column=hash", {"sort_column"}), ("sort_column=", {"sort_column"}),
    ("sort_column=ID", {"sort_column"}), ("sort_order=up", {"sort_order"}),
    ("sort_column=x&sort_order=y&page=z&search=%0A",
     {"sort_column", "sort_order", "page", "search"}),
)  # fmt: skip
_OF_VIDEOS: tuple[tuple[str, set[str]], ...] = (
    ("type=new", {"type"}), ("type=", {"type"}), ("type=Completed", {"type"}),
    ("from=2023-11-14", {"to"}), ("to=2023-11-14", {"from"}),
    ("from=2023-02-29&to=2023-03-01", {"from"}), ("from=14.11.2023&to=2023-11-14", {"from"}),
    ("from=2023-11-14&to=2023-11-14T00:00:00Z", {"to"}), ("from=2023-W46-2&to=", {"from", "to"}),
    ("type=x&from=y&page=z&search=%0A", {"type", "from", "to", "page", "search"}),
)  # fmt: skip
WRONG = {
    "videos": _ANY + _OF_VIDEOS,
    "streams": (*_ANY, *_SORTED, ("sort_column=name", {"sort_column"})),
    "tags": (*_ANY, *_SORTED, ("sort_column=title", {"sort_column"})),
    "categories": (*_ANY, *_SORTED, ("sort_column=title", {"sort_column"})),
}


@mostly_on("sqlite")
@pytest.mark.parametrize("kind", LISTS)
async def test_every_wrong_parameter_is_named_at_once(api_service: ApiService, kind: str) -> None:
    for query, fields in WRONG[kind]:
        body = await call(api_service, "GET", f"{LISTS[kind].path}?{query}", status=422)
        assert contract_shapes.refusal_faults(body) == [], query
        assert set(body["errors"]) == fields, query
