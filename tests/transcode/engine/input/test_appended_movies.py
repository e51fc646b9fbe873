"""MP4 files that were appended to each other: every fragment is shown, of whole films the first."""

import struct
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import onsets
from tests.support.engine.made_assets import SMALL, X264, joined, made_of, surveyed
from tests.support.engine.numbered_films import numbered, numbers
from transcode.engine.input.appended_movies import MediaFile

_BEEPS = "aevalsrc='0.8*sin(2*PI*1000*t)*gte(t,0.4)*lt(mod(t-0.4,1),0.1)':s=48000"
_FRAGMENTS = ("-movflags", "frag_keyframe+empty_moov+default_base_moof")
_CODING = (*X264, "-g", "25", "-bf", "2", "-c:a", "aac")


def boxes(data: bytes) -> list[tuple[bytes, bytes]]:
    at, found = 0, list[tuple[bytes, bytes]]()
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        found.append((kind, data[at : at + size]))
        at += size
    return found


def shown(path: Path) -> list[int]:
    return [number for _, number in numbers(joined(made_of(path), "240p"))]


def test_every_fragment_of_films_that_were_appended_is_shown_and_heard(tmp_path: Path) -> None:
    """FFmpeg itself leaves out the first fragment of each film but the first."""
    films = [
        numbered(
            tmp_path / f"{seconds}.mp4",
            *(*_CODING, *_FRAGMENTS),
            seconds=seconds,
            size=SMALL,
            sound=_BEEPS,
        )
        for seconds in (3, 1, 2)
    ]
    path = tmp_path / "a.mp4"
    path.write_bytes(b"".join(film.read_bytes() for film in films))
    output = made_of(path)
    assert (surveyed(output).reason, output.troubles) == ("", {"times leap": 1})
    pictures = numbers(joined(output, "240p"))
    assert [number for _, number in pictures] == [*range(75), *range(25), *range(50)]
    _, beeps = onsets(joined(output, AUDIO_RENDITION))
    assert beeps == pytest.approx([10.4 + second for second in range(6)], abs=0.1)


def test_a_fragment_that_is_there_twice_is_shown_once(tmp_path: Path) -> None:
    film = numbered(tmp_path / "a.mp4", *_CODING, *_FRAGMENTS, seconds=3, size=SMALL, sound=None)
    parts = boxes(film.read_bytes())
    second = [place for place, (kind, _) in enumerate(parts) if kind == b"moof"][1]
    repeated = [*parts[: second + 2], *parts[second:]]
    film.write_bytes(b"".join(data for _, data in repeated))
    assert shown(film) == list(range(75))


def test_of_whole_films_that_were_appended_the_first_is_shown_with_a_warning(
    tmp_path: Path,
) -> None:
    film = numbered(tmp_path / "a.mp4", *_CODING, seconds=1, size=SMALL)
    film.write_bytes(2 * film.read_bytes())
    output = made_of(film)
    assert output.troubles == {"films left out": 1}
    assert [number for _, number in numbers(joined(output, "240p"))] == list(range(25))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(2 * struct.pack(">I4sQ", 16, b"moov", 0), True, id="two"),
        pytest.param(struct.pack(">I4sQ", 16, b"moov", 0), False, id="one"),
        pytest.param(2 * struct.pack(">I4sQ", 1, b"moov", 16), True, id="large sizes"),
        pytest.param(2 * struct.pack(">I4sQ", 0, b"moov", 0), False, id="up to the end"),
        pytest.param(2 * struct.pack(">I4sQ", 7, b"moov", 0), False, id="too small"),
        pytest.param(2 * struct.pack(">I4sQ", 1, b"moov", 2**64 - 1), False, id="beyond"),
        pytest.param(b"moov", False, id="short"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_headers_are_counted_in_any_bytes(tmp_path: Path, data: bytes, expected: bool) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with MediaFile(path) as file:
        assert file.is_appended is expected
