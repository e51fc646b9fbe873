"""Two tracks of one channel: which are left and right, and how they become one sound."""

from array import array
from pathlib import Path

import pytest

from tests.support.engine.sources import ffmpeg
from transcode.engine.codec.decode import PacketData
from transcode.engine.input.container import audio_streams, has_other_sound, open_upload
from transcode.engine.input.demux import timed_packets
from transcode.engine.input.file_decoder import FileDecoders
from transcode.engine.input.stereo_pair import PairJoiner

# -- which tracks ---------------------------------------------------------------------------------


def tracks(path: Path, layouts: tuple[str, ...], *options: str) -> Path:
    """Make a file of silent tracks with the channel layouts; `options` are the output's."""
    inputs = [
        word
        for layout in layouts
        for word in ("-f", "lavfi", "-i", f"anullsrc=r=8000:cl={layout}:d=0.1")
    ]
    maps = [word for track in range(len(layouts)) for word in ("-map", str(track))]
    ffmpeg(*inputs, *maps, "-c:a", "pcm_s16le", *options, "-y", path)
    return path


def titled(*titles: str) -> tuple[str, ...]:
    pairs = [(f"-metadata:s:a:{track}", f"title={title}") for track, title in enumerate(titles)]
    return tuple(word for pair in pairs for word in pair)


MONO = ("mono", "mono")
ENGLISH = ("-metadata:s:a:0", "language=eng")


@pytest.mark.parametrize(
    ("ending", "layouts", "options", "used"),
    [
        pytest.param("mkv", MONO, (), (0, 1), id="not named"),
        pytest.param("mov", ("FL", "FR"), (), (0, 1), id="named left and right"),
        pytest.param("mov", ("FR", "FL"), (), (1, 0), id="named right and left"),
        pytest.param("mov", ("FL", "FL"), (), (0, 1), id="both named left"),
        pytest.param("mkv", MONO, titled("Mic Right", "Mic Left"), (1, 0), id="titled"),
        pytest.param("mkv", MONO, titled("Audio 1", "Audio 2"), (0, 1), id="numbered"),
        pytest.param("mkv", MONO, titled("Film", "Commentary"), (0,), id="of other titles"),
        pytest.param("mkv", MONO, ENGLISH, (0, 1), id="one language is not stated"),
        pytest.param(
            *("mkv", MONO, (*ENGLISH, "-metadata:s:a:1", "language=deu"), (0,)), id="two languages"
        ),
        pytest.param("mkv", 4 * ("mono",), (), (0, 1), id="four"),
        pytest.param("mov", ("FL", "FC", "FR"), (), (0, 2), id="a centre between them"),
        pytest.param("mov", ("FC", "FL", "FR"), (), (0,), id="a centre before them"),
        pytest.param("mkv", ("mono", "stereo"), (), (0,), id="one of them stereo"),
        pytest.param("mkv", ("mono", "mono", "stereo"), (), (0,), id="and a stereo one"),
        pytest.param("mkv", MONO, ("-ar:a:1", "16000"), (0,), id="two rates"),
        pytest.param("mkv", MONO, ("-c:a:1", "pcm_s24le"), (0,), id="two codecs"),
        pytest.param(
            *("mkv", MONO, ("-disposition:a:0", "0", "-disposition:a:1", "default"), (1,)),
            id="only the second is the default",
        ),
        pytest.param("mkv", MONO, ("-disposition:a:1", "comment"), (0,), id="a commentary"),
        pytest.param("mkv", ("mono",), (), (0,), id="alone"),
    ],
)
def test_tracks_of_one_channel_are_left_and_right_unless_they_are_alternatives(
    tmp_path: Path,
    ending: str,
    layouts: tuple[str, ...],
    options: tuple[str, ...],
    used: tuple[int, ...],
) -> None:
    path = tracks(tmp_path / f"a.{ending}", layouts, *options)
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        assert tuple(each.index for each in audio_streams(upload)) == used
        assert has_other_sound(upload) is (len(used) < len(layouts))


# -- from two tracks to one -----------------------------------------------------------------------


def samples(values: str) -> bytes:
    """Return a sample for each digit."""
    return array("f", [float(value) for value in values]).tobytes()


def taken(joiner: PairJoiner, *, all_of_them: bool = False) -> list[tuple[int, str, str]]:
    joined = joiner.take(all_of_them=all_of_them)
    return [(begin, digits(left), digits(right)) for begin, left, right in joined]


def digits(side: bytes) -> str:
    return "".join(f"{value:.0f}" for value in array("f", side))


@pytest.mark.parametrize(
    ("added", "joined", "rest"),
    [
        pytest.param(
            [(0, 10, "12345"), (1, 10, "678")], [(10, "123", "678")], [(13, "45", "00")], id="alike"
        ),
        pytest.param([(0, 0, "12"), (1, 2, "34")], [(0, "12", "00")], [(2, "00", "34")], id="late"),
        pytest.param([(0, 0, "12"), (1, 7, "34")], [(0, "12", "00")], [(7, "00", "34")], id="hole"),
        pytest.param([(0, -2, "12"), (1, -2, "34")], [(-2, "12", "34")], [], id="below zero"),
        pytest.param(
            [(0, 0, "12"), (0, 3, "34"), (1, 0, "5678")], [(0, "1234", "5678")], [], id="rounded"
        ),
        pytest.param(
            [(0, 0, "1234"), (0, 2, "5678"), (1, 0, "123456")],
            [(0, "123478", "123456")],
            [],
            id="an overlap",
        ),
        pytest.param([(0, 0, "1234")], [], [(0, "1234", "1234")], id="one side alone"),
        pytest.param(
            [(0, 0, "1"), (1, 0, "1"), (0, 1, "2345678"), (0, 8, "9")],
            [(0, "1", "1"), (1, "234", "000")],
            [(4, "5678", "0000"), (8, "9", "0")],
            id="one side ends",
        ),
        pytest.param([], [], [], id="nothing"),
    ],
)
def test_what_is_heard_together_comes_out_together(
    added: list[tuple[int, int, str]],
    joined: list[tuple[int, str, str]],
    rest: list[tuple[int, str, str]],
) -> None:
    joiner = PairJoiner(most=5, slack=1)
    for side, at, values in added:
        joiner.add(side, at, samples(values))
    assert merged(taken(joiner)) == joined
    assert merged(taken(joiner, all_of_them=True)) == rest


def merged(blocks: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Join blocks that follow each other, except to one with a silent side."""
    result: list[tuple[int, str, str]] = []
    for begin, left, right in blocks:
        before = result[-1] if result else None
        if before is not None and before[0] + len(before[1]) == begin and "0" not in left + right:
            result[-1] = (before[0], before[1] + left, before[2] + right)
        else:
            result.append((begin, left, right))
    return result


def test_what_comes_after_its_turn_is_left_out() -> None:
    joiner = PairJoiner(most=3, slack=0)
    joiner.add(0, 0, samples("12345678"))
    assert taken(joiner) == [(0, "12345", "12345")]  # there is no right side yet
    joiner.add(1, 4, samples("4567"))
    assert taken(joiner) == [(5, "678", "567")]


@pytest.mark.parametrize(
    ("ending", "coding"),
    [("mov", ("-c:a", "pcm_s24le")), ("mkv", ("-c:a", "aac", "-ar", "44100"))],
)
def test_each_track_is_heard_on_its_side_and_at_its_time(
    tmp_path: Path, ending: str, coding: tuple[str, ...]
) -> None:
    """The left one is loud in the first half of a second, the right one 0.25 s later."""
    inputs = [
        word
        for begin in ("0", "0.25")
        for word in ("-f", "lavfi", "-i", f"aevalsrc='0.5*between(t,{begin},{begin}+0.5)':d=1")
    ]
    path = tmp_path / f"a.{ending}"
    ffmpeg(*inputs, "-map", "0", "-map", "1", *coding, "-y", path)
    sides: tuple[dict[int, float], dict[int, float]] = {}, {}
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        sounds = audio_streams(upload)
        decoder = FileDecoders(None, sounds, timed=True).audio()
        frames = [
            frame
            for packet, _, pts in timed_packets(upload, [*sounds])
            for frame in decoder.decode(PacketData(packet), pts)
        ]
        for frame in [*frames, *decoder.drain()]:
            assert (frame.layout.name, frame.format.name) == ("stereo", "fltp")
            for plane, side in zip(frame.planes, sides, strict=True):
                for index, value in enumerate(array("f", bytes(plane)[: 4 * frame.samples])):
                    at = (frame.pts or 0) / 90_000 + index / frame.sample_rate
                    side[round(at * 1000)] = value
    for side, begin in zip(sides, (0, 250), strict=True):
        for at in (125, 375, 625, 875):
            assert abs(side[at] - (0.5 if begin <= at < begin + 500 else 0)) < 0.1, (begin, at)
