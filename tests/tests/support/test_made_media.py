"""The cache of media: keyed by the program and its arguments, if these name no input file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.made_media import forget_old, is_made_of_nothing, make_file

# A fake encoder, which counts its runs in a file, writes errors, and fails.
ENCODER = """
import sys
from pathlib import Path
count, what, path = sys.argv[1:]
Path(count).open("a").write("x")
if what == "worse":
    sys.exit("no such encoder")
if what == "bad":
    print("a warning", file=sys.stderr)
Path(path).write_text(what)
"""


def encoder(folder: Path, what: str) -> list[str]:
    return [sys.executable, "-c", ENCODER, str(folder / "count"), what]


def ran(folder: Path) -> int:
    return len((folder / "count").read_text())


def test_a_file_is_made_once_and_copied_after_that(tmp_path: Path) -> None:
    one, other, third = (tmp_path / name for name in ("one.mp4", "other.mp4", "third.mp4"))
    cache = tmp_path / "cache"
    assert make_file(encoder(tmp_path, "a"), one, seconds=20, cache=cache) == ""
    one.write_text("changed by a test")
    assert make_file(encoder(tmp_path, "a"), other, seconds=20, cache=cache) == ""
    assert (other.read_text(), ran(tmp_path)) == ("a", 1)
    make_file(encoder(tmp_path, "b"), third, seconds=20, cache=cache)
    assert (third.read_text(), ran(tmp_path)) == ("b", 2)


def test_a_file_with_complaints_is_made_anew_each_time(tmp_path: Path) -> None:
    for times in (1, 2):
        output = make_file(
            encoder(tmp_path, "bad"), tmp_path / "a.mp4", seconds=20, cache=tmp_path / "cache"
        )
        assert (output.strip(), ran(tmp_path)) == ("a warning", times)


def test_an_encoder_that_fails_fails_the_test_and_leaves_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError, match="no such encoder"):
            make_file(
                encoder(tmp_path, "worse"), tmp_path / "a.mp4", seconds=20, cache=tmp_path / "cache"
            )


def test_unused_files_are_removed_from_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    make_file(encoder(tmp_path, "a"), tmp_path / "a.mp4", seconds=20, cache=cache)
    now = max(path.stat().st_mtime for path in cache.iterdir())
    forget_old(now + 13 * 86_400, cache)
    assert len(list(cache.glob("*.mp4"))) == 1
    forget_old(now + 15 * 86_400, cache)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-f lavfi -i testsrc2=s=320x180 -c:v libx264", True),
        ("-f lavfi -i sine -f lavfi -i testsrc -t 3", True),
        ("-filter_complex testsrc2[v] -map [v]", True),
        ("-i whole.mp4 -c copy", False),
        ("-f lavfi -i sine -i whole.mp4", False),
        (f"-f lavfi -i movie={os.path.realpath(__file__)}", False),
    ],
)
def test_only_the_output_of_generators_is_cached(arguments: str, expected: bool) -> None:
    assert is_made_of_nothing(arguments.split()) is expected


def test_ffmpeg_makes_the_same_file_that_the_cache_gives(tmp_path: Path) -> None:
    direct, cached = tmp_path / "made.flv", tmp_path / "kept.flv"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=0.2", "-y"]
    make_file(command, direct, seconds=20, cache=tmp_path / "cache")
    subprocess.run([*command, cached], check=True)
    assert cached.read_bytes() == direct.read_bytes()
