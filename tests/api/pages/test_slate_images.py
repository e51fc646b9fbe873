"""Slate images, as browsers fetch them."""

from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from api.pages.slate_images import slate_image_handlers
from storage.objects.addresses import slate_picture
from storage.objects.disk import DiskObjects

OWNER, NAME = "s-abcdefABCDEF", "Picture01234"
PATH = f"/slates/{OWNER}/{NAME}.jpg"
PICTURE = b"\xff\xd8 a picture"


@pytest.fixture
def client(tmp_path: Path) -> Generator[TestClient[Litestar]]:
    with DiskObjects(tmp_path) as objects:
        anyio.run(objects.put, slate_picture(OWNER, NAME), PICTURE)
        with TestClient(
            Litestar(slate_image_handlers(objects), openapi_config=None, logging_config=None)
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
