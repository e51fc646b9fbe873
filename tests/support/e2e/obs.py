"""The real OBS Studio without a screen: under Xvfb, with Mesa's software renderer."""

import configparser
import io
import json
import os
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

INSTALL = "apt-get install obs-studio xvfb"

_GLOBAL = """[General]
FirstRun=true
[Basic]
Profile={name}
ProfileDir={folder}
SceneCollection=Test
SceneCollectionFile=Test
"""

_PROFILE = """[General]
Name=Test
[Video]
BaseCX=1280
BaseCY=720
OutputCX=1280
OutputCY=720
FPSType=0
FPSCommon=30
[Audio]
SampleRate=44100
ChannelSetup=Stereo
[Output]
Mode=Advanced
Reconnect=true
RetryDelay=2
[AdvOut]
Encoder=obs_x264
TrackIndex=1
"""

_ENCODER = {"bitrate": 2500, "keyint_sec": 2, "rate_control": "CBR", "preset": "veryfast"}


def _write_profile(profiles: Path, server: str, key: str) -> Path:
    """Write a profile as the settings dialog would, and return its folder."""
    profile = profiles / "Test"
    profile.mkdir()
    (profile / "basic.ini").write_text(_PROFILE)
    (profile / "streamEncoder.json").write_text(json.dumps(_ENCODER))
    service = {"type": "rtmp_custom", "settings": {"server": server, "key": key}}
    (profile / "service.json").write_text(json.dumps(service))
    return profile


def _import_profile(profiles: Path, zipped: bytes) -> Path:
    """Unpack a profile as an import would, and return its folder."""
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        archive.extractall(profiles)
        return profiles / archive.namelist()[0].split("/")[0]


def _write_settings(home: Path, clip: Path, profile: Path) -> str:
    """Write the other settings: the profile to use, and a scene with one clip.

    Return the profile's name.
    """
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(profile / "basic.ini")
    name = settings["General"]["Name"]
    canvas = settings["Video"]
    studio = home / ".config" / "obs-studio"
    scenes = studio / "basic" / "scenes"
    scenes.mkdir(parents=True)
    (studio / "global.ini").write_text(_GLOBAL.format(name=name, folder=profile.name))
    source = {
        "id": "ffmpeg_source",
        "versioned_id": "ffmpeg_source",
        "name": "clip",
        "settings": {"local_file": str(clip), "looping": True, "is_local_file": True},
        "mixers": 255,
        "volume": 1.0,
        "enabled": True,
    }
    item = {
        "name": "clip",
        "id": 1,
        "visible": True,
        "pos": {"x": 0.0, "y": 0.0},
        "scale": {"x": 1.0, "y": 1.0},
        "align": 5,
        "bounds_type": 2,
        "bounds": {"x": canvas.getfloat("BaseCX"), "y": canvas.getfloat("BaseCY")},
    }
    scenario = {
        "id": "scene",
        "versioned_id": "scene",
        "name": "Scene",
        "settings": {"id_counter": 1, "items": [item]},
        "enabled": True,
    }
    collection = {
        "name": "Test",
        "current_scene": "Scene",
        "current_program_scene": "Scene",
        "scene_order": [{"name": "Scene"}],
        "sources": [source, scenario],
    }
    (scenes / "Test.json").write_text(json.dumps(collection))
    return name


@contextmanager
def obs(
    home: Path,
    *,
    clip: Path,
    server: str = "",
    key: str = "",
    profile: bytes | None = None,
    trust: Path | None = None,
) -> Generator[subprocess.Popen[bytes]]:
    """Stream a clip with OBS for the length of the block.

    OBS is set up for a `server` and a `key`, or by importing a zipped `profile`.

    It checks RTMPS certificates against the system's store, which `trust` replaces for this process
    in its own mount namespace.
    """
    program = shutil.which("obs")
    assert program is not None and shutil.which("xvfb-run") is not None, f"missing: {INSTALL}"
    profiles = home / ".config" / "obs-studio" / "basic" / "profiles"
    profiles.mkdir(parents=True)
    written = (
        _write_profile(profiles, server, key)
        if profile is None
        else _import_profile(profiles, profile)
    )
    name = _write_settings(home, clip, written)
    start = [
        "xvfb-run", "-a", "-s", "-screen 0 1280x720x24", program, "--startstreaming",
        "--minimize-to-tray", "--multi", "--collection", "Test", "--profile", name,
    ]  # fmt: skip
    if trust is not None:
        store = home / "certificates"
        store.mkdir()
        shutil.copy(trust, store / "ca-certificates.crt")
        shutil.copy(trust, store / "local.pem")
        bind = f'mount --bind "{store}" /etc/ssl/certs && exec "$@"'
        start = ["unshare", "--mount", "sh", "-c", bind, "sh", *start]
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_RUNTIME_DIR": str(home),
        "LIBGL_ALWAYS_SOFTWARE": "1",
        "QT_QPA_PLATFORM": "xcb",
    }
    with (home / "obs.log").open("wb") as log:
        process = subprocess.Popen(
            start, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            # xvfb-run does not forward signals: send them to the whole process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
