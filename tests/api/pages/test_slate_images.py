"""Slate images, as browsers fetch them."""

from collections.abc import Generator, Sequence
from pathlib import Path

import anyio
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from api.pages.slate_images import SlateLookups, slate_image_handlers
from storage.objects.addresses import slate_picture
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock

OWNER, NAME = "s-abcdefABCDEF", "Picture01234"
PATH = f"/slates/{OWNER}/{NAME}.jpg"
PICTURE = b"\xff\xd8 a picture"


async def all_named(owners: Sequence[str]) -> set[str]:
    return {slate_picture(owner, NAME) for owner in owners}


@pytest.fixture
def client(tmp_path: Path) -> Generator[TestClient[Litestar]]:
    with DiskObjects(tmp_path) as objects:
        anyio.run(objects.put, slate_picture(OWNER, NAME), PICTURE)
        with TestClient(
            Litestar(
                slate_image_handlers(objects, all_named), openapi_config=None, logging_config=None
            )
        ) as opened:
            yield opened


def test_a_slate_is_cached_for_ever_and_sent_once(client: TestClient[Litestar]) -> None:
    answer = client.get(PATH)
    assert (answer.status_code, answer.content) == (200, PICTURE)
    assert "immutable" in answer.headers["cache-control"]
    unchanged = client.get(PATH, headers={"If-None-Match": answer.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [PATH.replace(NAME, "Another01234"), f"/slates/x-abcdefABCDEF/{NAME}.jpg", f"{PATH}.bak"],
)
def test_what_is_no_slate_is_404_and_not_cached(client: TestClient[Litestar], path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    assert answer.headers["access-control-allow-origin"] == "*"


class CountingObjects(DiskObjects):
    """A real disk that counts what is read."""

    reads = 0

    async def get(self, address: str) -> bytes:
        self.reads += 1
        return await super().get(address)


def test_made_up_names_are_looked_up_a_bounded_number_of_times(tmp_path: Path) -> None:
    clock = ManualClock()
    asked: list[str] = []

    async def find_named(owners: Sequence[str]) -> set[str]:
        asked.extend(owners)
        return {slate_picture(OWNER, NAME)} if OWNER in owners else set()

    objects = CountingObjects(tmp_path)
    with objects:
        anyio.run(objects.put, slate_picture(OWNER, NAME), PICTURE)
        lookups = SlateLookups(find_named, clock=clock)
        handlers = slate_image_handlers(objects, all_named, lookups)
        app = Litestar(handlers, openapi_config=None, logging_config=None)
        with TestClient(app) as client:
            for number in range(100):
                made_up = f"/slates/s-{number:012}/{NAME}.jpg"
                assert client.get(made_up).status_code == 404
            assert (objects.reads, len(asked)) == (20, 80)
            assert client.get(PATH).content == PICTURE  # its row names it
            assert objects.reads == 21
            clock.now += 1.0
            for _ in range(50):
                assert client.get(PATH.replace(NAME, "Another01234")).status_code == 404
            assert objects.reads == 22
            assert client.get(PATH).content == PICTURE


def test_a_picture_that_no_row_names_is_not_shown(tmp_path: Path) -> None:
    named = {slate_picture(OWNER, NAME)}

    async def find_named(owners: Sequence[str]) -> set[str]:
        return named if OWNER in owners else set()

    with DiskObjects(tmp_path) as objects:
        anyio.run(objects.put, slate_picture(OWNER, NAME), PICTURE)
        handlers = slate_image_handlers(objects, find_named)
        with TestClient(Litestar(handlers, openapi_config=None, logging_config=None)) as client:
            assert client.get(PATH).content == PICTURE
            named.clear()
            assert client.get(PATH).status_code == 404
