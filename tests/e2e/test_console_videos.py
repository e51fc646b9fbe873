"""Uploading and managing videos in the console, in a real Chromium against a whole service."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.e2e.test_resumable import MiB, written
from tests.support.api.upload_clips import clip, picture
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.console_pages import shows, sign_in
from tests.support.e2e.publishers import tool
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.e2e.uploaded_videos import Json, completed, get_json, upload
from tests.support.mail_server import SENDER, MailServer, mail_server_aside

pytestmark = pytest.mark.e2e

STATE = "() => document.querySelector('#transfers [data-part=state]')?.textContent === '%s'"
SENT = "() => document.querySelector('#transfers progress')?.value > %s"
TITLES = "() => [...document.querySelectorAll('#videos h2')].map((each) => each.innerText)"

# While a viewer requests a video, the service caches its public record for a second.
OTHERS_LOOK = """() => {
  const [address] = document.querySelector('img.poster').src.split('?');
  setInterval(() => fetch(address, { cache: 'no-store' }), 200);
}"""
OTHER_POSTER = """() => {
  const { src } = document.querySelector('img.poster');
  return src.startsWith('http') && src !== %r;
}"""
# Whether the browser has cached the final picture for the poster's address.
KEEPS_THE_NEW = """async () => {
  const bytes = async (address, cache) =>
    String(new Uint8Array(await (await fetch(address, { cache })).arrayBuffer()));
  const { src } = document.querySelector('img.poster');
  const kept = await bytes(src, 'force-cache');
  await new Promise((resolve) => setTimeout(resolve, 1500));
  return kept === await bytes(src, 'no-store');
}"""

# Whether an element has the focus, and is within the window together with what describes it.
AT_HAND = """(selector) => {
  const all = [document.querySelector(selector)];
  if (document.activeElement !== all[0]) return "the focus is elsewhere";
  for (const id of all[0].getAttribute("aria-describedby")?.split(" ") ?? [])
    all.push(document.getElementById(id));
  return all.map((each) => each.getBoundingClientRect())
    .every(({ top, bottom }) => top >= 0 && bottom <= innerHeight) || "out of sight";
}"""


@pytest.fixture(scope="module")
def mails() -> Iterator[MailServer]:
    with mail_server_aside() as server:
        yield server


@pytest.fixture(scope="module")
def headend(
    mails: MailServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        "HEADEND_MAIL__SERVER": f"127.0.0.1:{mails.port}",
        "HEADEND_MAIL__SECURITY": "none",
        "HEADEND_MAIL__SENDER": SENDER,
    }
    with service(tmp_path_factory.mktemp("console") / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def project_path(headend: ServiceProcess) -> str:
    """The path of the first project's pages."""
    return f"/console/{get_json(headend, '/api/projects/1')['key']}"


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("films") / "film.mp4"
    # A keyframe each second: previews are made of keyframes.
    command = [
        *(tool("ffmpeg"), "-v", "error", "-f", "lavfi"),
        *("-i", "testsrc2=size=640x360:rate=10:duration=6", "-g", "10", "-c:v", "libx264"),
        *("-preset", "ultrafast", "-pix_fmt", "yuv420p", str(path)),
    ]
    subprocess.run(command, check=True, timeout=60)
    return path


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film of a second, which is made quickly."""
    path = tmp_path_factory.mktemp("films") / "short.mp4"
    path.write_bytes(clip())
    return path


@pytest.fixture(scope="module")
def made(headend: ServiceProcess, film: Path) -> Json:
    """A video that plays."""
    status, answer = upload(headend, film, title="A film")
    assert status == 201, answer
    completed(headend, answer["video"]["id"], within=60)
    return answer["video"]


def videos(headend: ServiceProcess, search: str) -> list[Json]:
    answer = fetch(f"{headend.http}/api/projects/1/videos?search={search}", token=headend.token)
    return cast("list[Json]", answer.json["data"])


def must_keep_its_policy(viewer: Viewer) -> None:
    assert viewer.breaches() == []
    assert [line for line in viewer.console if "Content Security" in line] == []


def test_an_upload_goes_on_after_a_reload_and_becomes_a_video(
    headend: ServiceProcess, browser: Chromium, project_path: str, tmp_path: Path
) -> None:
    size = 12 * MiB
    written(tmp_path / "Holidays.mp4", size)
    viewer = sign_in(browser, headend, f"{project_path}/upload")
    viewer.limit_upload(3 * MiB // 2)  # 6 s are left then, also on a busy machine
    viewer.choose_files("#files", tmp_path / "Holidays.mp4")
    viewer.wait_for_page(SENT % 0.3, 20, "a third is sent")
    viewer.reload()
    viewer.wait_for_page(
        "() => document.querySelector('#unfinished')?.innerText.includes('Holidays.mp4')",
        10, "known to be unfinished",
    )  # fmt: skip
    viewer.choose_files("#files", tmp_path / "Holidays.mp4")
    viewer.wait_for_page(SENT % 0, 20, "sending again")
    went_on = viewer.evaluate("() => document.querySelector('#transfers progress').value")
    assert isinstance(went_on, float | int)
    assert went_on > 0.2, "it began anew"
    assert viewer.evaluate("() => document.querySelector('#unfinished').hidden") is True
    viewer.limit_upload(0)
    viewer.wait_for_page(STATE % "Ready", 60, "ready")
    (video,) = videos(headend, "Holidays")
    assert video["size"] == size
    viewer.click("#transfers [data-part=open]")
    viewer.wait_for_page(
        f"() => location.pathname === '{project_path}/videos/{video['id']}'", 10, "the video's page"
    )
    must_keep_its_policy(viewer)


def test_an_upload_is_paused_resumed_and_cancelled(
    headend: ServiceProcess, browser: Chromium, project_path: str, tmp_path: Path
) -> None:
    written(tmp_path / "Paused.mp4", 16 * MiB)
    viewer = sign_in(browser, headend, f"{project_path}/upload")
    viewer.limit_upload(2 * MiB)
    viewer.choose_files("#files", tmp_path / "Paused.mp4")
    viewer.wait_for_page(SENT % 0.1, 20, "under way")
    viewer.click("[data-part=pause]")
    viewer.wait_for_page(STATE % "Paused", 10, "paused")
    viewer.click("[data-part=resume]")
    viewer.wait_for_page(STATE % "Uploading", 10, "resumed")
    viewer.click("[data-part=cancel]")
    viewer.click("#confirm button[value=yes]")
    viewer.wait_for_page("() => document.querySelector('#transfers').hidden", 10, "cancelled")
    viewer.wait_for_page(
        f"async () => !(await (await fetch('{project_path}/videos')).text()).includes('Paused')",
        10, "gone",
    )  # fmt: skip


def test_a_file_that_is_no_video_is_refused_with_a_reason_and_the_others_are_uploaded(
    headend: ServiceProcess, browser: Chromium, project_path: str, film: Path, tmp_path: Path
) -> None:
    (tmp_path / "letter.mp4").write_text("Dear viewers, " * 1000)
    viewer = sign_in(browser, headend, f"{project_path}/upload")
    viewer.choose_files("#files", tmp_path / "letter.mp4", film)
    states = """() => {
      const states = [...document.querySelectorAll("#transfers [data-part=state]")]
        .map((each) => each.textContent);
      return states.length === 2 && states[0] === "Refused" && states[1] === "Ready";
    }"""
    viewer.wait_for_page(states, 60, "one refused, one ready")
    assert viewer.text("#transfers .problem").strip()
    assert videos(headend, "letter") == []


def test_a_video_gets_a_poster_of_its_own_moment_and_a_country(
    headend: ServiceProcess, browser: Chromium, project_path: str, made: Json
) -> None:
    viewer = sign_in(browser, headend, f"{project_path}/videos/{made['id']}")
    viewer.wait_for_page(
        "() => document.querySelectorAll('[data-moment]').length > 0", 20, "moments to choose"
    )
    before = viewer.evaluate("() => document.querySelector('img.poster').src")
    viewer.framed().click("[data-part=start]")
    viewer.evaluate(OTHERS_LOOK)
    viewer.click("[data-moment]")
    viewer.wait_for_page(OTHER_POSTER % before, 30, "another poster")
    assert viewer.evaluate(KEEPS_THE_NEW) is True
    viewer.click("#details details summary")
    viewer.fill("#find-country", "roma")
    viewer.click("#countries input[value='642']")
    viewer.fill("#tags", "news, sport")
    assert "cannot tell the countries of viewers" in viewer.text("#details details .note")
    viewer.click("#details form button")
    assert "this plays for nobody but you" in viewer.text("#confirm-text")
    viewer.click("#confirm button[value=yes]")
    viewer.wait_for_page(
        "() => document.querySelector('#toasts').innerText.includes('Saved')", 10, "saved"
    )
    record = get_json(headend, f"/api/videos/{made['id']}")
    assert [each["code"] for each in record["countries"]] == ["RO"]
    assert [each["name"] for each in record["tags"]] == ["news", "sport"]
    assert record["title"] == "A film"
    shows(viewer, "#details .problem", "This plays for nobody but you")
    must_keep_its_policy(viewer)
    viewer.visit(f"{headend.http}/console")
    assert "restrictions: streams or videos are restricted" in viewer.text("main")
    opened = {"countries": list[str]()}
    fetch(f"{headend.http}/api/videos/{made['id']}", method="PUT", token=headend.token, body=opened)


def test_an_edit_of_a_video_that_has_changed_since_is_refused_and_nothing_is_lost(
    headend: ServiceProcess, browser: Chromium, project_path: str, made: Json
) -> None:
    viewer = sign_in(browser, headend, f"{project_path}/videos/{made['id']}")
    viewer.resize(390, 500)
    viewer.fill("#description", "Mine")
    path = f"{headend.http}/api/videos/{made['id']}"
    theirs = fetch(path, method="PUT", token=headend.token, body={"description": "Theirs"})
    assert theirs.status == 200
    viewer.click("#details form button")
    viewer.wait_for_page(
        "() => document.querySelector('#details .form-error') !== null", 10, "told"
    )
    assert viewer.evaluate(AT_HAND, ".form-error[role=alert]") is True
    assert get_json(headend, f"/api/videos/{made['id']}")["description"] == "Theirs"
    assert viewer.evaluate("() => document.querySelector('#description').value") == "Mine"
    assert viewer.asked == []
    viewer.visit(f"{headend.http}{project_path}/videos")
    assert viewer.asked == ["beforeunload"]
    viewer.visit(f"{headend.http}{project_path}/videos/{made['id']}")
    viewer.fill("#description", "Mine")
    viewer.click("#details form button")
    viewer.wait_for_page(
        "() => document.querySelector('#toasts').innerText.includes('Saved')", 10, "saved"
    )
    viewer.visit(f"{headend.http}{project_path}/videos")
    assert viewer.asked == ["beforeunload"], "what was saved is no edit"


def test_a_field_that_is_refused_is_led_to(
    headend: ServiceProcess, browser: Chromium, project_path: str
) -> None:
    viewer = sign_in(browser, headend, f"{project_path}/settings")
    viewer.resize(390, 500)
    viewer.fill("#origins", "no address")
    # The button would take the field out of sight.
    viewer.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    viewer.evaluate("() => document.querySelector('#origins').form.requestSubmit()")
    viewer.wait_for_page("() => document.querySelector('.field-error') !== null", 10, "told")
    assert viewer.evaluate(AT_HAND, "#origins[aria-invalid=true]") is True


def test_a_file_takes_the_place_of_another(
    headend: ServiceProcess, browser: Chromium, project_path: str, short: Path, tmp_path: Path
) -> None:
    status, answer = upload(headend, short, title="First cut")
    assert status == 201, answer
    number = answer["video"]["id"]
    completed(headend, number, within=60)
    (tmp_path / "second.mp4").write_bytes(clip("320x180", "2"))
    viewer = sign_in(browser, headend, f"{project_path}/videos/{number}")
    viewer.choose_files("#replacement", tmp_path / "second.mp4")
    shows(viewer, "#confirm-text", "Replace the file of “First cut”?")
    viewer.click("#confirm button[value=no]")
    viewer.choose_files("#replacement", tmp_path / "second.mp4")
    shows(viewer, "#confirm-text", "You can take the old file back for 7 days.")
    viewer.click("#confirm button[value=yes]")
    viewer.wait_for_page(
        "() => document.querySelector('#replace [data-part=state]')?.textContent === 'Ready'",
        60, "the new file ready",
    )  # fmt: skip
    viewer.wait_for_page(
        "() => document.querySelector('#renditions').innerText.includes('320 \u00d7 180')",
        10,
        "shown",
    )
    assert get_json(headend, f"/api/videos/{number}")["title"] == "First cut"
    viewer.click("#file .note button")
    shows(viewer, "#confirm-text", "Take the former file back?")
    viewer.click("#confirm button[value=yes]")
    shows(viewer, "#toasts", "The former file is back.")
    shows(viewer, "#file", "640 \N{MULTIPLICATION SIGN} 360")
    completed(headend, number, within=60)


def test_a_question_that_follows_a_refused_one_at_once_is_answered_by_itself(
    headend: ServiceProcess, browser: Chromium, project_path: str, short: Path
) -> None:
    status, answer = upload(headend, short, title="Hasty")
    assert status == 201, answer
    viewer = sign_in(browser, headend, f"{project_path}/videos/{answer['video']['id']}")
    viewer.evaluate("""async () => {
      const remove = document.querySelector('[data-api^="DELETE /api/videos"]');
      remove.click();
      await Promise.resolve();
      await Promise.resolve();
      document.querySelector('#confirm button[value=no]').click();
      remove.click();
    }""")
    viewer.click("#confirm button[value=yes]")
    viewer.wait_for_page(f"() => location.pathname === '{project_path}/videos'", 20, "deleted")
    assert videos(headend, "Hasty") == []


def test_many_are_selected_and_deleted_by_keyboard(
    headend: ServiceProcess, browser: Chromium, project_path: str, short: Path
) -> None:
    for number in range(2):
        status, answer = upload(headend, short, title=f"Spare {number}")
        assert status == 201, answer
    viewer = sign_in(browser, headend, f"{project_path}/videos?search=Spare")
    for at in range(2):
        viewer.evaluate(f"() => document.querySelectorAll('[data-pick]')[{at}].focus()")
        viewer.press(" ")
    assert "2 videos selected" in viewer.text("#chosen")
    viewer.click("[data-bulk$='/retry']")
    viewer.wait_for_page(
        "() => document.querySelector('#alerts').innerText.includes('0 of 2 videos queued again.')",
        10, "told how many",
    )  # fmt: skip
    assert "2 videos selected" in viewer.text("#chosen")
    viewer.evaluate("() => document.querySelector('[data-bulk^=DELETE]').focus()")
    viewer.press("Enter")
    assert "(2)" in viewer.text("#confirm-text")
    viewer.press("Tab")
    viewer.press("Enter")
    viewer.wait_for_page(
        "() => document.querySelector('#videos').innerText.includes('No video is like that.')",
        20, "both deleted",
    )  # fmt: skip
    assert "2 videos deleted." in viewer.text("#toasts")
    assert videos(headend, "Spare") == []


def test_a_token_is_shown_once_and_a_label_is_added(
    headend: ServiceProcess, browser: Chromium, project_path: str
) -> None:
    viewer = sign_in(browser, headend, f"{project_path}/settings")
    viewer.fill("#category-new", "Concerts")
    viewer.press("Enter")
    viewer.wait_for_page(
        "() => document.querySelector('#categories input[value=Concerts]') !== null", 10, "added"
    )
    viewer.fill("#token-name", "the site")
    viewer.press("Enter")
    viewer.wait_for_page("() => document.querySelector('#secret').open", 10, "shown")
    secret = viewer.evaluate("() => document.querySelector('#secret-text').value")
    assert fetch(f"{headend.http}/api/projects", token=str(secret)).status == 200
    viewer.press("Escape")
    viewer.wait_for_page("() => document.querySelector('#secret-text').value === ''", 10, "gone")
    assert str(secret) not in viewer.text("main")
    must_keep_its_policy(viewer)


def test_who_gets_mail_is_set_and_tried_out(
    headend: ServiceProcess, browser: Chromium, project_path: str, mails: MailServer
) -> None:
    viewer = sign_in(browser, headend, f"{project_path}/settings")
    viewer.fill("#mail-to", "ops@a.example\nnobody")
    viewer.click("#mail form button")
    viewer.wait_for_page(
        "() => document.activeElement.matches('#mail-to[aria-invalid=true]')", 10, "refused"
    )
    viewer.fill("#mail-to", "ops@a.example\nowner@a.example")
    viewer.click("#mail [name='kinds.video_failed']")
    viewer.click("#mail form button")
    viewer.wait_for_page(
        "() => document.querySelector('#mail button.secondary') !== null", 10, "saved"
    )
    mail = get_json(headend, "/api/projects/1/mail")
    kinds = {"primary_lost": True, "off_air": True, "video_failed": False}
    assert (mail["to"], mail["kinds"]) == (["ops@a.example", "owner@a.example"], kinds)
    viewer.click("#mail button.secondary")
    answered = "() => document.querySelector('#toasts').innerText.includes('owner@a.example: 250 ')"
    viewer.wait_for_page(answered, 20, "the answer of the mail server")
    assert sorted((to, each["Subject"]) for to, each in mails.mails) == [
        ("ops@a.example", "[Headend] A test mail"), ("owner@a.example", "[Headend] A test mail"),
    ]  # fmt: skip
    must_keep_its_policy(viewer)


def test_a_custom_slate_is_uploaded(
    headend: ServiceProcess, browser: Chromium, project_path: str, tmp_path: Path
) -> None:
    (tmp_path / "soon.png").write_bytes(picture())
    viewer = sign_in(browser, headend, f"{project_path}/settings")
    viewer.choose_files("#slate", tmp_path / "soon.png")
    viewer.wait_for_page(
        "() => document.querySelector('#defaults img')?.naturalWidth > 0", 20, "the new slate"
    )
