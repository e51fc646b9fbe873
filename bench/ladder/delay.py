"""What low delay costs: the delay, CPU and quality of each encoder of a ladder, in both modes.

    python -m bench.ladder.delay [--seconds 8] [--clips sport talk screen]

Each clip is decoded and scaled once, and each rung encoded twice: as for normal latency and as for
low. The delay is the largest number of pictures that an encoder takes after a picture before it
returns that picture's sample, also in ms at 30 pictures a second. CPU is that of the encoding
threads alone, in seconds.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import av
from av.video.frame import PictureType, VideoFrame

from bench.ladder.clips import RATE, add_options, chosen, make
from bench.ladder.quality import vmaf
from bench.ladder.runs import RUNGS
from media.hls.fmp4 import Sample, fragment, video_init
from media.ladder import Rendition
from media.ticks import VIDEO_SCALE
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.encode import Quality, VideoEncoder
from transcode.engine.codec.scaler import Cascade

_STEP: Final = VIDEO_SCALE // RATE
_GROUP: Final = 2 * RATE  # pictures from one IDR picture to the next
_MODES: Final = (Quality.LIVE, Quality.LOW_DELAY)
_RUNGS: Final = tuple(
    Rendition(name=name, width=width, height=height, rate=rate * 1000)
    for name, width, height, rate in RUNGS
)


class EncodedRung:
    """One rung in one mode: its samples, and what they cost."""

    def __init__(self, rung: Rendition, like: VideoFrame, mode: Quality) -> None:
        self.rung = rung
        self.samples: list[Sample] = []
        self.cpu = 0.0
        self.delay = 0  # pictures
        self._encoder = VideoEncoder(rung, like, Fraction(RATE), mode)

    def add(self, number: int, picture: VideoFrame | None) -> None:
        """Encode picture `number`, or flush the encoder."""
        begun = time.thread_time()
        samples = self._encoder.encode(picture)
        self.cpu += time.thread_time() - begun
        self.samples += samples
        if picture is not None:
            self.delay = max([self.delay, *(number - each.pts // _STEP for each in samples)])

    def write(self, path: Path) -> Path:
        """Write the rendition as one file."""
        early = -min(0, self.samples[0].dts)
        moved = [
            Sample(each.dts + early, each.pts + early, _STEP, each.key, each.data)
            for each in self.samples
        ]
        init = video_init(
            config=self._encoder.config, width=self.rung.width, height=self.rung.height
        )
        path.write_bytes(init + fragment(moved, number=1))
        return path


def main() -> int:
    """Print a table and return 0."""
    options = _options()
    folder: Path = options.folder
    print("| clip | rung | delay: normal / low | CPU s | VMAF | difference | kbit/s |")
    print("|---|---|---|---|---|---|---|")
    for clip in chosen(options.clips):
        path = make(clip, options.seconds, folder)
        for row in _rows(clip.name, path, options.seconds, folder / "delay"):
            print(row, flush=True)
    return 0


def _rows(clip: str, path: Path, seconds: int, folder: Path) -> Iterator[str]:
    """Yield the table's row of each rung."""
    modes = _encode(path)
    scores: list[dict[str, float]] = []
    for encoded in modes:
        folder.mkdir(parents=True, exist_ok=True)
        files = {each.rung.name: each.write(folder / f"{each.rung.name}.mp4") for each in encoded}
        scores.append(vmaf(path, files, folder))
        shutil.rmtree(folder)
    for normal, low in zip(*modes, strict=True):
        name = normal.rung.name
        before, after = (score[name] for score in scores)
        rates = [sum(len(one.data) for one in each.samples) for each in (normal, low)]
        kbits = " / ".join(str(round(size * 8 / 1000 / seconds)) for size in rates)
        delays = f"{normal.delay} ({_ms(normal)} ms) / {low.delay} ({_ms(low)} ms)"
        cpu = f"{normal.cpu:.2f} / {low.cpu:.2f}"
        yield (
            f"| {clip} | {name} | {delays} | {cpu} | {before:.2f} / {after:.2f} "
            f"| {after - before:+.2f} | {kbits} |"
        )


def _ms(encoded: EncodedRung) -> int:
    return round(encoded.delay * 1000 / RATE)


def _encode(path: Path) -> Sequence[list[EncodedRung]]:
    """Return all rungs of a clip in each mode."""
    cascade = Cascade(tuple((rung.width, rung.height) for rung in _RUNGS))
    modes: tuple[list[EncodedRung], ...] = ([], [])
    number = 0
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            frame.pts, frame.time_base = number * _STEP, TIME_BASE
            pictures = cascade.scale(frame, Fraction(1))
            for mode, encoded in zip(_MODES, modes, strict=True):
                if not encoded:
                    encoded += [
                        EncodedRung(rung, picture, mode)
                        for rung, picture in zip(_RUNGS, pictures, strict=True)
                    ]
                for each, picture in zip(encoded, pictures, strict=True):
                    first = number % _GROUP == 0
                    picture.pict_type = PictureType.I if first else PictureType.NONE
                    each.add(number, picture)
            number += 1
    for encoded in modes:
        for each in encoded:
            each.add(number, None)
    return modes


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ladder.delay", description=__doc__)
    parser.add_argument("--seconds", type=int, default=8, help="how long each clip is")
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
