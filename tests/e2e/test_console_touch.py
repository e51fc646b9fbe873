"""Every control of the console under a finger, on phones of 320 to 412 pixels."""

import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.e2e.fingers import must_suit_fingers
from tests.support.e2e.publishers import tool
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.e2e.uploaded_videos import completed, upload

pytestmark = pytest.mark.e2e

# Titles as long as people make them; words that do not break are in `test_console_pages`.
TITLE: Final = "The evening news of the region, with the weather and an interview"
# Pages below the project's, and how many controls each has at least.
PAGES: Final = {
    "/console": 8,
    "/console/1/streams": 12,
    "/console/1/streams/new": 8,
    "/console/1/streams/1": 60,
    "/console/1/videos": 14,
    "/console/1/videos/1": 40,
    "/console/1/upload": 14,
    "/console/1/settings": 40,
    "/console/operations": 4,
    "/console/nothing": 1,
}
# A button of a page, and what it opens: a bar, or a question.
OPENED: Final = {
    "/console/1/streams": ("#select-all", "!document.querySelector('#bulk').hidden"),
    "/console/1/videos": ("[data-pick-all]", "!document.querySelector('#chosen').hidden"),
    "/console/1/videos/1": (
        "button.danger[data-api^=DELETE]",
        "document.querySelector('#confirm').open",
    ),
}


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("touch")
    film = folder / "film.mp4"
    command = [
        *(tool("ffmpeg"), "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=10"),
        *("-t", "2", "-g", "10", "-c:v", "libx264", "-preset", "ultrafast", str(film)),
    ]
    subprocess.run(command, check=True, timeout=60)
    environment = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0", "HEADEND_API__REQUESTS_PER_MINUTE": "0"}
    with service(folder / "data", environment=environment) as running:
        for path, body in (
            ("categories", {"name": TITLE}),
            ("tags", {"name": TITLE}),
            ("players", {"name": TITLE}),
            ("upload-links", {"title": TITLE}),
        ):
            address = f"{running.http}/api/projects/1/{path}"
            assert fetch(address, method="POST", token=running.token, body=body).status == 201
        running.add_stream(TITLE)
        status, answer = upload(running, film, title=TITLE)
        assert status == 201, answer
        completed(running, answer["video"]["id"], within=60)
        assert upload(running, film, title=TITLE)[0] == 201
        yield running


@pytest.fixture(scope="module")
def phone(headend: ServiceProcess, debians_chromium: Chromium) -> Iterator[Viewer]:
    viewer = debians_chromium.open(
        f"{headend.http}/console/sign-in", width=390, height=740, touch=True
    )
    must_suit_fingers(viewer, "sign in", 2)
    viewer.fill("#token", headend.token)
    viewer.tap("main button")
    viewer.wait_for_page("() => document.querySelector('header.top') !== null", 10, "signed in")
    yield viewer
    viewer.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_finger_reaches_every_control_of_a_page(
    headend: ServiceProcess, phone: Viewer, page: str
) -> None:
    phone.visit(f"{headend.http}{page}")
    must_suit_fingers(phone, page, PAGES[page])
    if page in OPENED:
        button, is_open = OPENED[page]
        phone.tap(button)
        phone.wait_for_page(f"() => {is_open}", 10, "opened")
        must_suit_fingers(phone, f"{page}, opened", 2)
    assert phone.breaches() == []
