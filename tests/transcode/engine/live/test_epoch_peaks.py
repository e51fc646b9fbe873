"""The peak bit rates of what a real engine encodes, container included, of nasty content."""

from pathlib import Path

import pytest

from delivery.run.variants import RenditionMeasure
from media.ladder import AUDIO_PEAK_RATE, AUDIO_RENDITION
from tests.support.engine.engine_process import EngineOutput, begin, orders, run
from tests.support.engine.sources import ffmpeg, source_of

SIZE = "854x96"
NOISE = f"color=gray:s={SIZE}:r=30:d=4,noise=alls=100:allf=t+u"
# Noise stills, another one twice a second.
CUTS = f"color=gray:s={SIZE}:r=2:d=4,noise=alls=100:allf=t+u,fps=30"
BLACK = f"color=black:s={SIZE}:r=30:d=4"


def peak(output: EngineOutput, name: str) -> int:
    """Return the peak segment bit rate of a rendition, as playlists measure it."""
    measure = RenditionMeasure()
    for each in output.segments(name):
        measure = measure.with_segment(each.size, each.duration, frames=each.frames, epoch=0)
    return measure.peak


@pytest.mark.parametrize(
    "scenes",
    [
        pytest.param((BLACK, NOISE, BLACK, CUTS), id="calm, noise, calm, cuts"),
        pytest.param((NOISE, CUTS, NOISE), id="noise and cuts", marks=pytest.mark.prove),
        pytest.param((CUTS, BLACK, CUTS), id="cuts", marks=pytest.mark.prove),
    ],
)
def test_no_rung_exceeds_the_peak_that_playlists_announce(
    folder: Path, scenes: tuple[str, ...]
) -> None:
    path = folder / f"nasty{scenes[0][:5]}{len(scenes)}.flv"
    inputs = [part for scenario in scenes for part in ("-f", "lavfi", "-i", scenario)]
    joined = "".join(f"[{index}:v]" for index in range(len(scenes)))
    length = 4 * len(scenes)
    sound = f"anoisesrc=a=1:r=48000:d={length},volume='gte(mod(t,4),2)':eval=frame"
    ffmpeg(
        *inputs,
        *("-f", "lavfi", "-i", sound),
        *("-filter_complex", f"{joined}concat=n={len(scenes)},format=yuv420p[v]"),
        *("-map", "[v]", "-map", f"{len(scenes)}:a", "-c:v", "libx264", "-preset", "ultrafast"),
        *("-qp", "30", "-g", "60", "-c:a", "aac", "-b:a", "192k", "-f", "flv", "-y", path),
    )
    source = source_of(path)
    order = begin(source, reuse=False)
    output = run(orders(source, order))
    assert (output.status, output.troubles) == (0, {})
    assert order.ladder
    peaks = {
        rung.name: peak(output, rung.name) / rung.peak_rate for rung in order.ladder.renditions
    }
    peaks[AUDIO_RENDITION] = peak(output, AUDIO_RENDITION) / AUDIO_PEAK_RATE
    assert len(peaks) == 3
    assert max(peaks.values()) <= 1, peaks
    assert min(peaks.values()) > 0.7, ("the content is nasty", peaks)
