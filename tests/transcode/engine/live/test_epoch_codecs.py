"""Sources in HEVC, AV1 and VP9 through a real engine process: every rung is encoded."""

import functools

import msgspec
import pytest

from media.ladder import AUDIO_RENDITION, Ladder, Rendition
from tests.support.engine.coded_sources import HEVC, HEVC_OPEN, coded
from tests.support.engine.decoded_output import frames, warnings
from tests.support.engine.engine_process import ORIGIN, EngineOutput, begin, orders, run
from tests.support.engine.sources import Source
from transcode.protocol.messages import Begin, Prepared

RUNGS = Ladder(
    (
        Rendition(name="360p", width=640, height=72, rate=160_000, source_size=True),
        Rendition(name="240p", width=426, height=48, rate=80_000),
    )
)


@functools.cache
def low(encoder: str, form: str = "yuv420p") -> Source:
    return coded(encoder, form=form, size=(640, 72))


def order(source: Source) -> Begin:
    return begin(source, ladder=RUNGS)


def exact(output: EngineOutput, source: Source) -> bool:
    """Whether every frame of the source comes out of every rung at its time, silently."""
    assert (output.status, output.complaints, output.troubles, warnings(output)) == (0, "", {}, {})
    assert output.in_step()
    assert output.names == ["240p", "360p", AUDIO_RENDITION]
    (prepared,) = output.of(Prepared)
    assert prepared.reused is None
    first = source.pictures[0].pts
    wanted = sorted(ORIGIN + 90 * (packet.pts - first) for packet in source.pictures)
    assert output.finished.frames_in == len(wanted)
    for name, size in (("360p", (640, 72)), ("240p", (426, 48))):
        frames_shown = [frame for file in output.files(name) for frame in frames(file)]
        assert [pts for pts, _, _ in frames_shown] == wanted
        assert {(width, height) for _, width, height in frames_shown} == {size}
    return True


@pytest.mark.parametrize(
    ("encoder", "form"),
    [
        (HEVC, "yuv420p10le"),
        ("libsvtav1", "yuv420p"),
        pytest.param(HEVC, "yuv420p", marks=pytest.mark.prove),
        pytest.param("libvpx-vp9", "yuv420p", marks=pytest.mark.prove),
    ],
)
def test_every_rung_has_every_frame(encoder: str, form: str) -> None:
    source = low(encoder, form)
    output = run(orders(source, order(source)))
    assert exact(output, source)


@pytest.fixture(scope="module")
def open_groups() -> Source:
    """HEVC with CRA pictures in place of all IDR pictures but the first."""
    return coded(HEVC, options=HEVC_OPEN, size=(640, 72))


def test_open_groups_go_through_whole(open_groups: Source) -> None:
    output = run(orders(open_groups, order(open_groups)))
    assert exact(output, open_groups)


def test_a_source_that_begins_at_an_open_group_loses_its_leading_pictures(
    open_groups: Source,
) -> None:
    pictures = open_groups.pictures
    entry = next(n for n, packet in enumerate(pictures) if n and packet.key)
    after = next(n for n in range(entry + 1, 90) if pictures[n].pts > pictures[entry].pts)
    assert after > entry + 1
    output = run([order(open_groups), *pictures[entry - 5 :]])
    shortened = msgspec.structs.replace(open_groups, packets=(pictures[entry], *pictures[after:]))
    assert exact(output, shortened)


def test_a_source_that_begins_between_keyframes_begins_with_the_next() -> None:
    for encoder in ("libsvtav1", "libvpx-vp9"):
        source = low(encoder)
        shortened = msgspec.structs.replace(source, packets=source.packets[30:])
        assert shortened.packets[0].key
        output = run([order(source), *source.packets[12:]])
        assert exact(output, shortened)
