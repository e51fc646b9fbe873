"""One user's journey through a fresh service, from the sign-in link to signing out.

By mouse with the real OBS, and by keyboard alone. It takes the pictures of `docs/console.md`
(`make pictures`).
"""

import json
import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.console_pages import HEIGHT, WIDTH, shows, value
from tests.support.e2e.foreign_site import site
from tests.support.e2e.hands import Keyboard, Mouse, UserInput
from tests.support.e2e.obs import obs
from tests.support.e2e.page_pictures import PagePictures
from tests.support.e2e.publishers import ffmpeg, publishing, tool
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.geo_database import countries
from tests.support.made_media import make_file
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

TITLE: Final = "Evening concert"
FILM_BYTES: Final = 300_000_000
SENT: Final = "852\u00d7480 H.264"
UPLOAD_RATE: Final = 30_000_000  # bytes in a second: a good line, and time to reload halfway

_GLOW: Final = (
    "gradients=s={width}x{height}:r={rate}:d={seconds}:seed=7:speed=0.02:n=4:x0=0:y0=0"
    ":x1={width}:y1={height}:c0=0x0b1f4b:c1=0xd9486e:c2=0xf2a65a:c3=0x1e6091,vignette=PI/5"
)
_NOTE_SWITCH: Final = """() => {
  window.switched = null;
  const state = document.querySelector("#state");
  new MutationObserver(() => {
    if (window.switched === null && state.innerText.includes("Backup 1 is on air"))
      window.switched = Date.now() / 1000;
  }).observe(state, { childList: true, subtree: true, characterData: true });
}"""
_SWITCHED: Final = "() => window.switched !== null"
_CHARTS: Final = "() => document.querySelectorAll('#health canvas').length === 3"
_TRANSFER: Final = """() => {
  const view = document.querySelector("#transfers .transfer");
  const part = (name) => view.querySelector(`[data-part=${name}]`);
  return [part("state").textContent, part("bar").value];
}"""
_SENT: Final = "() => document.querySelector('#transfers progress')?.value > %s"
_POSTER: Final = "() => document.querySelector('#poster img.poster').src"
_OWN_REQUEST: Final = """async () => {
  const headers = { "X-Headend-Console": "1" };
  return (await fetch("/api/projects", { headers, credentials: "same-origin" })).status;
}"""


@dataclass
class UserJourney:
    """The user's input device, the service, and the folder of the journey."""

    user_input: UserInput
    headend: ServiceProcess
    pictures: PagePictures
    folder: Path

    @property
    def viewer(self) -> Viewer:
        return self.user_input.viewer

    @property
    def address(self) -> str:
        """The address of the open page."""
        return str(self.viewer.evaluate("() => location.href"))

    def follow(self, place: str, heading: str) -> None:
        """Follow a link of the pages' own menu."""
        self.user_input.press(f'header.top a[href$="/{place}"]')
        shows(self.viewer, "h1", heading)

    def agree(self, selector: str) -> None:
        """Press a button that opens a dialog, and confirm the dialog."""
        self.user_input.press(selector)
        self.user_input.agree()

    def picture(self, name: str, top: str = "") -> None:
        self.pictures.take(self.viewer, name, top)


# An encoder publishes a clip with a profile of OBS.
Encoder = Callable[[UserJourney, Path, Path], AbstractContextManager[subprocess.Popen[bytes]]]


def test_a_broadcast_and_a_film_by_mouse(browser: Chromium, tmp_path: Path, proof: Proof) -> None:
    with fresh_service(tmp_path) as headend:
        viewer = browser.open(headend.console, width=WIDTH, height=HEIGHT)
        walk = UserJourney(Mouse(viewer), headend, PagePictures(tmp_path / "pictures"), tmp_path)
        late = run_journey(walk, browser, with_obs)
    proof("a switch in the console, after it happened (OBS was killed)", f"{late:.2f} s", "1 s")
    proof("the console by mouse, from a fresh service to signing out", "all of it", "all of it")


def test_the_same_by_keyboard_alone(browser: Chromium, tmp_path: Path, proof: Proof) -> None:
    with fresh_service(tmp_path) as headend:
        viewer = browser.open(headend.console, width=WIDTH, height=HEIGHT, still=True)
        keyboard = Keyboard(viewer)
        walk = UserJourney(keyboard, headend, PagePictures(tmp_path / "pictures"), tmp_path)
        run_journey(walk, browser, with_ffmpeg)
    stops = f"all of it, the focus seen at {keyboard.stops} stops"
    proof("the console by keyboard, from a fresh service to signing out", stops, "all of it")


def run_journey(walk: UserJourney, browser: Chromium, encoder: Encoder) -> float:
    """Run the whole journey; return the seconds after which the page showed the switch."""
    sign_in(walk)
    add_stream(walk)
    room = walk.address
    late = broadcast(walk, encoder)
    find_the_recording(walk)
    upload_a_film(walk)
    choose_a_poster(walk)
    embed(walk, browser)
    walk.viewer.visit(room)
    rotate_the_key(walk)
    sign_out(walk)
    assert walk.viewer.breaches() == []
    assert [line for line in walk.viewer.console if "Content Security" in line] == []
    return late


@contextmanager
def fresh_service(folder: Path) -> Generator[ServiceProcess]:
    """Run an unused service, whose viewers on this machine are in Romania."""
    environment = {
        "HEADEND_GEO__DATABASE": str(countries(folder / "countries.mmdb", here="RO")),
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(folder / "data", environment=environment) as running:
        yield running


@contextmanager
def with_obs(walk: UserJourney, profile: Path, clip: Path) -> Generator[subprocess.Popen[bytes]]:
    home = walk.folder / "obs"
    home.mkdir()
    with obs(home, profile=profile.read_bytes(), clip=clip) as process:
        yield process


@contextmanager
def with_ffmpeg(walk: UserJourney, profile: Path, clip: Path) -> Generator[subprocess.Popen[bytes]]:
    """Publish with the profile's address and key; OBS cannot be used without a mouse here."""
    with zipfile.ZipFile(profile) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("service.json")]
        settings = json.loads(archive.read(name))["settings"]
    url = f"{settings['server']}/{settings['key']}"
    with publishing(ffmpeg(clip, url, "-stream_loop", "-1")) as process:
        yield process


def kill(encoder: subprocess.Popen[bytes]) -> None:
    """Kill an encoder and all processes that it has started."""
    if os.getpgid(encoder.pid) == encoder.pid:
        os.killpg(encoder.pid, signal.SIGKILL)
    else:
        encoder.kill()


# The journey


def sign_in(walk: UserJourney) -> None:
    shows(walk.viewer, "main", "This link signs this browser in, once.")
    walk.user_input.press("main button")
    shows(walk.viewer, "h1", "Overview")


def add_stream(walk: UserJourney) -> None:
    """Add a stream that is recorded, which opens its room."""
    walk.user_input.press('#projects a[href$="/streams"]')
    shows(walk.viewer, "h1", "Streams")
    walk.user_input.press('a[href$="/streams/new"]')
    shows(walk.viewer, "h1", "New stream")
    walk.user_input.write("#title", TITLE)
    walk.viewer.press("Enter")
    shows(walk.viewer, "#state", "It goes live by itself when an encoder sends.")
    walk.user_input.press("details.fold:has(#settings) > summary")
    walk.user_input.pick('select[name="recording.enabled"]', "Yes")
    walk.user_input.press("#settings form button")
    shows(walk.viewer, "#events", "Settings changed")
    walk.picture("stream-new")


def broadcast(walk: UserJourney, encoder: Encoder) -> float:
    """Go on air, lose the encoder, and end; return the delay (seconds) of the shown switch."""
    viewer = walk.viewer
    walk.user_input.pick('.obs select[name="resolution"]', "480p, 1.2 Mbit/s")
    walk.picture("connect", "#setup")
    profile = walk.user_input.download("#obs-profile", walk.folder)
    clip = make_clip(walk.folder)
    with encoder(walk, profile, clip) as primary:
        shows(viewer, "#state", "Primary is on air", 60)
        wait_until_healthy(walk, "primary")
        viewer.wait_for_page(_CHARTS, 10, "three charts")
        viewer.framed().wait_until_playing(30)
        with publishing(backup_of(walk, clip)):
            wait_until_healthy(walk, "backup-1")
            shows(viewer, "#slot-backup-1", "Standing by")
            walk.picture("on-air")
            walk.picture("health", "#health")
            late = kill_primary(walk, primary)
            viewer.framed().wait_until_playing(20)
            walk.picture("switched", "#slots")
            walk.user_input.press("#act-end")
            walk.picture("asked")
            walk.user_input.agree()
            shows(viewer, "#state", "Off air", 30)
    return late


def wait_until_healthy(walk: UserJourney, slot: str) -> None:
    """Wait until the room shows an encoder's figures, and no problem of it."""
    figures = {"picture": SENT, "rate": "Mbit/s", "frames": "a second", "keyframes": "every 2 s"}
    for name, words in figures.items():
        shows(walk.viewer, f'#slot-{slot} [data-figure="{name}"]', words, 40)
    shows(walk.viewer, f'[data-verdict="{slot}"]', "Well", 30)


def backup_of(walk: UserJourney, clip: Path) -> list[str]:
    """Return the command of a second encoder, with the address and the key from the room."""
    server = walk.viewer.text("#server-backup-1")
    walk.user_input.press('[data-reveal="#stream-key"]')
    assert walk.viewer.evaluate("() => document.querySelector('#stream-key').type") == "text"
    key = value(walk.viewer, "#stream-key")
    walk.user_input.press('[data-reveal="#stream-key"]')
    return ffmpeg(clip, f"{server}/{key}", "-stream_loop", "-1")


def kill_primary(walk: UserJourney, primary: subprocess.Popen[bytes]) -> float:
    """Kill the primary; return how long after the switch the page showed it, in seconds."""
    walk.viewer.evaluate(_NOTE_SWITCH)
    kill(primary)
    walk.viewer.wait_for_page(_SWITCHED, 30, "the switch")
    shown_at = cast("float", walk.viewer.evaluate("() => window.switched"))
    shows(walk.viewer, "#events", "the connection of primary was lost")
    listed = fetch(f"{walk.headend.http}/api/projects/1/events", token=walk.headend.token).json
    events = cast("list[dict[str, Any]]", listed["data"])  # Any: JSON
    (switched_at,) = [each["created_at"] for each in events if each["type"] == "switched"]
    late = shown_at - datetime.fromisoformat(switched_at).timestamp()
    assert 0 <= late <= SCALE
    return late


def find_the_recording(walk: UserJourney) -> None:
    """Open the run's video, and play it on its watch page."""
    viewer = walk.viewer
    walk.follow("videos", "Videos")
    walk.user_input.write('input[name="search"]', TITLE.split()[-1])
    shows(viewer, "#videos", f"{TITLE}, ", 30)
    shows(viewer, "#videos", "Ready", 30)
    walk.picture("videos")
    walk.user_input.press("#videos h2 a")
    shows(viewer, "h1", f"{TITLE}, ")
    viewer.framed().wait(lambda sample: sample.state == "playing", 20, "ready")


def upload_a_film(walk: UserJourney) -> None:
    """Upload a large film, with a reload of the page halfway, and watch it to the end."""
    viewer = walk.viewer
    film = make_film(walk.folder / "Summer film.mov")
    walk.follow("upload", "Upload")
    viewer.limit_upload(UPLOAD_RATE)
    walk.user_input.attach("#files", film)
    viewer.wait_for_page(_SENT % 0.4, 60, "nearly half is sent")
    walk.picture("upload")
    viewer.reload()
    assert viewer.asked == ["beforeunload"]
    shows(viewer, "#unfinished", film.name)
    walk.user_input.attach("#files", film)
    viewer.wait_for_page(_SENT % 0, 20, "sending again")
    assert watched(walk)[1] >= 0.35, "it began anew"
    polls: list[tuple[str, float]] = []

    def is_over() -> bool:
        polls.append(watched(walk))
        return polls[-1][0] in ("Ready", "Failed", "Refused", "Interrupted")

    poll(is_over, within=180, what="the film, ready")
    assert polls[-1][0] == "Ready"
    progress = [value for state, value in polls if state == "Transcoding"]
    assert len(set(progress)) >= 3
    assert progress == sorted(progress)
    assert film.stat().st_size >= FILM_BYTES
    film.unlink()
    walk.user_input.press("#transfers [data-part=open]")
    shows(viewer, "h1", "Summer film")


def watched(walk: UserJourney) -> tuple[str, float]:
    """Return the state of the upload and the progress of its bar, from 0 to 1."""
    state, at = cast("tuple[str, float]", walk.viewer.evaluate(_TRANSFER))
    return state, at


def choose_a_poster(walk: UserJourney) -> None:
    """Choose a moment of the film as its poster, without using the player before."""
    viewer = walk.viewer
    viewer.wait_for_page(
        "() => document.querySelectorAll('[data-moment]').length > 3", 30, "moments to choose"
    )
    before = viewer.evaluate(_POSTER)
    walk.user_input.press("[data-moment]:not(li:first-child *)")
    viewer.wait_for_page(f"() => ({_POSTER})() !== {before!r}", 30, "another poster")
    walk.picture("video")
    walk.picture("poster", "#poster")


def embed(walk: UserJourney, browser: Chromium) -> None:
    """Embed the film in a page of another site, by the clipboard; restrict it, then allow it."""
    pages: dict[str, str] = {"/write": "<!doctype html><textarea></textarea>"}
    with site(pages) as stranger:
        walk.user_input.press('[data-copy="#embed-iframe"]')
        shows(walk.viewer, "#toasts", "Copied.")
        editor = browser.open(f"{stranger}/write", width=WIDTH, height=HEIGHT)
        editor.press("Tab")
        editor.press("Control+V")
        editor.wait_for_page("() => document.querySelector('textarea').value !== ''", 10, "pasted")
        snippet = value(editor, "textarea")
        (address,) = re.findall(r' src="([^"]+)"', snippet)
        pages["/"] = f"<!doctype html><h1>A stranger</h1>{snippet}"
        editor.visit(f"{stranger}/")
        plays(editor)
        walk.user_input.press("#details details summary")
        restrict(walk, "german", "276", "Germany")
        poll(lambda: fetch(address).status == 451, within=3, what="the film, withheld")
        editor.reload()
        shows(editor.framed(), "body", "Not available in your country")
        restrict(walk, "roma", "642", "Germany, Romania")
        walk.picture("countries", "#details details")
        poll(lambda: fetch(address).status == 200, within=3, what="the film, open again")
        editor.reload()
        plays(editor)
        editor.close()


def restrict(walk: UserJourney, search: str, number: str, names: str) -> None:
    """Add a country to those in which the film plays; `names` are all of them then."""
    walk.user_input.write("#find-country", search)
    walk.user_input.press(f"#countries input[value='{number}']")
    walk.user_input.press("#details form button")
    shows(walk.viewer, "#details details summary", f"Countries: {names}")


def plays(page: Viewer) -> None:
    """Start the player of a frame, and check that it plays."""
    frame = page.framed()
    frame.wait(lambda sample: sample.state == "playing", 20, "ready")
    frame.click("[data-part=start]")
    frame.wait_until_playing(20)


def rotate_the_key(walk: UserJourney) -> None:
    before = value(walk.viewer, "#stream-key")
    walk.agree("#rotate")
    shows(walk.viewer, "#events", "The stream key was changed: the old one is refused.")
    poll(lambda: value(walk.viewer, "#stream-key") != before, within=5, what="the new key")
    refused = ffmpeg(make_clip(walk.folder), f"{walk.headend.server}/{before}")
    done = subprocess.run(refused, capture_output=True, timeout=20 * SCALE, check=False)
    assert done.returncode != 0


def sign_out(walk: UserJourney) -> None:
    """Sign out: afterwards neither the previous page nor a request gets data."""
    assert walk.viewer.evaluate(_OWN_REQUEST) == 200
    walk.user_input.press("header.top form button")
    shows(walk.viewer, "h1", "Sign in")
    assert walk.viewer.evaluate(_OWN_REQUEST) == 401
    walk.viewer.back()
    shows(walk.viewer, "h1", "Sign in")
    assert TITLE not in walk.viewer.text("body")


# Media


def make_clip(folder: Path) -> Path:
    """Make the encoders' clip: a moving glow, 852 x 480, a keyframe every 2 s."""
    path = folder / "glow.flv"
    if not path.exists():
        picture = _GLOW.format(width=852, height=480, rate=30, seconds=20)
        command = [
            *(tool("ffmpeg"), "-v", "error", "-y", "-f", "lavfi", "-i", picture),
            *("-f", "lavfi", "-i", "sine=frequency=220:sample_rate=48000:duration=20"),
            *("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-b:v", "1200k"),
            *("-maxrate", "1200k", "-bufsize", "1200k", "-nal-hrd", "cbr", "-g", "60"),
            *("-sc_threshold", "0", "-bf", "2", "-c:a", "aac", "-b:a", "128k", "-ac", "2"),
        ]
        make_file(command, path, seconds=120)
    return path


def make_film(path: Path) -> Path:
    """Make a film as an editor exports it: ProRes with film grain, more than 300 MB, 30 s."""
    picture = _GLOW.format(width=960, height=540, rate=25, seconds=30)
    command = [
        *(tool("ffmpeg"), "-v", "error", "-y", "-f", "lavfi", "-i"),
        *(f"{picture},noise=alls=8:allf=t", "-f", "lavfi", "-i", "sine=frequency=220:duration=30"),
        *("-pix_fmt", "yuv422p10le", "-c:v", "prores", "-profile:v", "3", "-c:a", "pcm_s16le"),
        str(path),
    ]
    subprocess.run(command, check=True, timeout=120 * SCALE)
    assert path.stat().st_size >= FILM_BYTES
    return path
