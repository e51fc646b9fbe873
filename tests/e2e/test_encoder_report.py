"""Real encoders with bad and differing settings: the report advises what to set instead."""

import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.e2e.publishers import ffmpeg, publishing, tool
from tests.support.e2e.service import SCALE, ServiceProcess, fetch
from tests.support.engine.programmes import RATE, programme
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

Json = dict[str, Any]  # Any: what the API answers


def film(path: Path, size: str, fps: int, gop: int, b_frames: int, *sound: str) -> Path:
    """Make 24 s of film with a fixed pattern of keyframes and B-frames."""
    subprocess.run(
        [
            tool("ffmpeg"), "-v", "error", "-y",
            "-f", "lavfi", "-i", f"testsrc2=s={size}:r={fps}:d=24",
            "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:d=24",
            "-c:v", "libx264", "-preset", "superfast", "-profile:v", "high", "-b:v", "600k",
            "-g", str(gop), "-keyint_min", str(gop), "-sc_threshold", "0",
            "-bf", str(b_frames), "-b_strategy", "0", "-pix_fmt", "yuv420p",
            "-c:a", "aac", "-b:a", "96k", *sound, str(path),
        ],
        check=True,
    )  # fmt: skip
    return path


def get_report(headend: ServiceProcess, path: str) -> Json:
    answer = fetch(f"{headend.http}/api/streams/1{path}", token=headend.token)
    assert answer.status == 200, answer.text
    return cast("Json", answer.json["data"])


def report(headend: ServiceProcess) -> Json:
    return get_report(headend, "/ingest")


@pytest.mark.prove
def test_the_report_advises_owners_of_badly_set_encoders(
    headend: ServiceProcess, tmp_path: Path
) -> None:
    assert report(headend) == {"live": False, "on_air": None, "slots": [], "advice": []}
    (backup,) = get_report(headend, "")["backups"]
    first = film(tmp_path / "a.flv", "640x360", 30, 240, 4, "-ac", "2")
    second = film(tmp_path / "b.flv", "426x240", 25, 50, 0, "-ac", "1")
    primary = ffmpeg(first, f"{headend.server}/{headend.key}")

    def has_interval() -> Json | None:
        current = report(headend)
        slots = current["slots"]
        has_video = len(slots) == 1 and slots[0]["video"] is not None and current["live"]
        return current if has_video and slots[0]["video"]["keyframes"]["intervals"] else None

    with publishing(primary):
        current = poll(has_interval, within=15 + 5 * SCALE, what="a keyframe interval")
        assert current is not None
        (slot,) = current["slots"]
        assert (current["on_air"], slot["slot"], slot["backup_id"]) == ("primary", "primary", None)
        assert slot["peer"].startswith("127.0.0.1:")
        assert slot["connected_seconds"] >= 8
        assert current["advice"] == []
        video, audio, network = slot["video"], slot["audio"], slot["network"]
        assert (video["codec"], video["profile"]) == ("H.264", "High")
        assert (video["width"], video["height"]) == (640, 360)
        assert video["plays_everywhere"]
        assert (video["announced_frame_rate"], video["frame_rate"]) == (30, pytest.approx(30, 0.01))
        assert (video["frame_rate_varies"], video["frames_missing"]) == (False, 0)
        facts = video["keyframes"]
        assert facts["median_seconds"] == pytest.approx(8, abs=0.01)
        assert (video["b_frames"], video["open_gop"]) == (4, False)
        assert 200_000 <= video["bit_rate"] <= 900_000
        assert (audio["codec"], audio["rate"], audio["channels"]) == ("AAC", 44_100, 2)
        assert network["jitter_ms"] <= 200 * SCALE
        assert slot["clock"]["jumps"] == slot["clock"]["steps_back"] == 0
        assert slot["clock"]["drift_ppm"] is None  # it is not 30 s yet
        advice = " ".join(slot["advice"])
        assert "keyframe interval is 8 s: set 2 s" in advice
        assert "4 B-frames" in advice

        def both() -> Json | None:
            current = report(headend)
            has_video = [
                each["slot"] for each in current["slots"] if each["video"] and each["audio"]
            ]
            rated = (
                has_video == ["primary", "backup-1"] and current["slots"][1]["video"]["frame_rate"]
            )
            return current if rated else None

        with publishing(ffmpeg(second, f"{backup['rtmp_url']}/{headend.key}")):
            current = poll(both, within=5 * SCALE, what="both encoders' frame rates")
            assert current is not None
            assert current["on_air"] == "primary"
            backup_slot = current["slots"][1]
            assert backup_slot["backup_id"] == backup["id"]
            # A loaded machine delays packets; the advice about that is not about settings.
            about_network = ("Nothing ", "Packets ")
            assert [
                each for each in backup_slot["advice"] if not each.startswith(about_network)
            ] == []
            (advice,) = current["advice"]
            for part in (
                "Primary and backup-1 have different settings",
                "640x360 and 426x240",
                "30 and 25 frames/s",
                "2 and 1 channels",
                "shows a discontinuity",
            ):
                assert part in advice
    poll(lambda: report(headend)["slots"] == [], within=3 * SCALE, what="nobody")
    assert "keyframe interval" not in headend.log.read_text()


def test_the_report_says_how_far_two_encoders_are_apart(
    headend: ServiceProcess, tmp_path: Path
) -> None:
    """One ffmpeg sends a programme twice, the second time 1.371 s later, mono and half as loud."""
    wave = programme(60, seed=11)
    sound = tmp_path / "a.raw"
    sound.write_bytes(wave.tobytes())
    codecs = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "30", "-c:a", "aac", "-f", "flv")
    (backup,) = get_report(headend, "")["backups"]
    both = [
        tool("ffmpeg"), "-v", "error", "-nostdin",
        "-re", "-f", "f32le", "-ar", str(RATE), "-ac", "1", "-i", str(sound),
        "-re", "-f", "lavfi", "-i", "color=c=black:s=64x36:r=15",
        "-filter_complex", "[0]asplit[a][b];[b]adelay=1371,volume=0.5[c]",
        "-map", "1", "-map", "[a]", "-ac", "2", *codecs, f"{headend.server}/{headend.key}",
        "-map", "1", "-map", "[c]", "-ar", "44100", "-b:a", "64k", *codecs,
        f"{backup['rtmp_url']}/{headend.key}",
    ]  # fmt: skip

    def alignment() -> Json | None:
        slots = report(headend)["slots"]
        found = slots[1]["alignment"] if len(slots) == 2 else None
        return found if found is not None and found["behind_ms"] is not None else None

    with publishing(both):
        found = poll(alignment, within=20 + 5 * SCALE, what="an alignment")
        assert found is not None
        assert abs(found["behind_ms"] - 1371) < 60
        assert (found["reference"], found["method"], found["reason"]) == ("primary", "sound", None)
        assert found["confidence"] > 0.5
        assert report(headend)["slots"][0]["alignment"] is None
