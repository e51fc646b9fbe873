"""Sources as encoders send them: encoded by Debian's ffmpeg, read back from FLV as packets."""

import subprocess
from pathlib import Path

import av
import msgspec
from av.audio.stream import AudioStream

from media.codecs.avc import AvcConfig
from media.ladder import Ladder, Rendition
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from tests.support.made_media import is_made_of_nothing, make_file
from transcode.protocol.messages import Packet

# Low pictures, wide enough for the label: they have the ladder of that size and a fifteenth of its
# pixels. Encoders spend their time on pixels, and on bits: see `thinned`.
LOW_720P, LOW_480P, LOW_360P = (960, 48), (720, 48), (480, 48)
# Louder than the filter `sine`, whose quiet tone takes AAC encoders half as long again.
TONE = "aevalsrc=0.5*sin(880*PI*t):s=44100"

# Scene cuts, motion, noise and a plain colour, which no single test pattern combines.
_SCENES = (
    "testsrc2=s={size}:r={rate}:d={piece},format=yuv420p,setsar=1[a];"
    "mandelbrot=s={size}:r={rate},trim=duration={piece},setpts=PTS-STARTPTS,"
    "format=yuv420p,setsar=1[b];"
    "life=s={half}:r={rate}:ratio=0.4:seed=7:mold=10,trim=duration={piece},setpts=PTS-STARTPTS,"
    "scale={size},format=yuv420p,setsar=1[c];"
    "color=c=red:s={size}:r={rate}:d={piece},noise=alls=12:allf=t:all_seed=3,"
    "format=yuv420p,setsar=1[d];"
    "[a][b][c][d]concat=n=4:v=1:a=0[v]"
)
_COMMAND = ("ffmpeg", "-nostdin", "-hide_banner", "-v", "warning")
_SECONDS = 60
_BITS_OF_A_PIXEL = 0.2  # the bits per pixel of a typical stream


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The packets of one encoder in sending order; times are in milliseconds."""

    video: VideoTrack | None
    audio: AudioTrack | None
    packets: tuple[Packet, ...]

    @property
    def pictures(self) -> list[Packet]:
        return [packet for packet in self.packets if packet.video]

    @property
    def published(self) -> list[bytes]:
        """Its pictures as a rendition has them: keyframes bring the record's two parameter sets."""
        assert self.video is not None
        sps_record = self.video.config[6:]
        pps_record = sps_record[3 + int.from_bytes(sps_record[:2], "big") :]
        sets = b"".join(
            bytes(2) + record[: 2 + int.from_bytes(record[:2], "big")]
            for record in (sps_record, pps_record)
        )
        return [sets + each.data if each.key else each.data for each in self.pictures]


def ffmpeg(*arguments: str | Path, stdin: bytes | None = None) -> str:
    """Run Debian's ffmpeg (apt-get install ffmpeg); return its warnings."""
    command = [*_COMMAND, *arguments]
    *others, last = arguments
    texts = [each for each in others if isinstance(each, str)]
    if isinstance(last, Path) and len(texts) == len(others) and is_made_of_nothing(texts):
        return make_file([*_COMMAND, *texts], last, seconds=_SECONDS)
    if stdin is not None:
        command.remove("-nostdin")
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr.decode()
    return done.stderr.decode()


def scenes(
    path: Path,
    *,
    seconds: float,
    gop: float | None,
    size: tuple[int, int] = LOW_360P,
    rate: int = 30,
    extra: tuple[str, ...] = (),
    sound: str | None = TONE,
) -> Path:
    """Make an FLV of several scenes with B-frames; `gop` in seconds, None: one keyframe only."""
    bits = round(size[0] * size[1] * rate * _BITS_OF_A_PIXEL)
    graph = _SCENES.format(
        size=f"{size[0]}x{size[1]}",
        half=f"{size[0] // 2}x{size[1] // 2}",
        rate=rate,
        piece=seconds / 4,
    )
    keyint = str(round(rate * gop)) if gop is not None else "9999"
    coded = ["-c:v", "libx264", "-preset", "superfast", "-bf", "3", "-b:v", str(bits)]
    coded += ["-g", keyint, "-keyint_min", keyint, "-sc_threshold", "0", "-threads", "1"]
    audio: list[str] = []
    if sound is not None:
        graph += f";{sound},atrim=duration={seconds},aformat=channel_layouts=mono[s]"
        audio = ["-map", "[s]", "-c:a", "aac", "-b:a", "96k"]
    ffmpeg(
        *("-filter_complex", graph, "-map", "[v]", *coded, *extra, *audio),
        *("-t", str(seconds), "-f", "flv", "-y", path),
    )
    return path


def moving(
    path: Path,
    *,
    seconds: float,
    gop: int,
    size: tuple[int, int] = (320, 64),
    rate: float = 30,
    form: str = "yuv420p",
    bframes: int = 2,
) -> Path:
    """Make an FLV of one moving test picture, cheaply; `gop` is in frames."""
    # The filter generates even sizes only.
    shape = f"format={form},scale={size[0]}:{size[1]}"
    picture = f"testsrc2=s={size[0] + 1}x{size[1] + 1}:r={rate}:d={seconds},{shape}"
    ffmpeg(
        *("-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", TONE, "-t", str(seconds)),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", form, "-bf", str(bframes)),
        *("-g", str(gop), "-keyint_min", str(gop), "-sc_threshold", "0", "-threads", "1"),
        *("-c:a", "aac", "-f", "flv", "-y", path),
    )
    return path


def pulses(path: Path, *, seconds: int, size: tuple[int, int] = (256, 48)) -> Path:
    """Make an FLV that flashes and beeps at once, 0.4 s into each second, for 0.1 s."""
    when = "gte(t,0.4)*lt(mod(t-0.4,1),0.1)"
    picture = f"color=black:s={size[0]}x{size[1]}:r=30:d={seconds}"
    ffmpeg(
        *("-f", "lavfi", "-i", f"{picture},drawbox=c=white:t=fill:enable='{when}'"),
        *("-f", "lavfi", "-i", f"aevalsrc='0.8*sin(2*PI*1000*t)*{when}':s=44100:d={seconds}"),
        *("-c:v", "libx264", "-preset", "superfast", "-bf", "3", "-g", "60", "-c:a", "aac"),
        *("-b:a", "128k", "-f", "flv", "-y", path),
    )
    return path


def thinned(ladder: Ladder) -> Ladder:
    """Return a ladder with the bits per pixel of full-height pictures."""
    return Ladder(
        tuple(
            msgspec.structs.replace(rung, rate=round(rung.rate * min(1, _share_of_height(rung))))
            for rung in ladder.renditions
        )
    )


def _share_of_height(rung: Rendition) -> float:
    """Return a picture's height as a share of that of a 16:9 picture of its width."""
    return rung.height / (rung.width * 9 / 16)


def source_of(path: Path) -> Source:
    """Read a file's packets as the ingest would pass them on."""
    video: VideoTrack | None = None
    audio: AudioTrack | None = None
    packets: list[Packet] = []
    with av.open(str(path)) as container:
        for stream in container.streams:
            config = stream.codec_context.extradata or b""
            if isinstance(stream, AudioStream):
                audio = AudioTrack(
                    codec=AudioCodec.AAC, config=config, rate=stream.rate, channels=stream.channels
                )
            else:
                facts = AvcConfig.parse(config)
                video = VideoTrack(
                    codec=VideoCodec.AVC, config=config, width=facts.width, height=facts.height
                )
        for packet in container.demux():
            if packet.pts is None or packet.dts is None:
                continue
            packets.append(
                Packet(
                    video=not isinstance(packet.stream, AudioStream),
                    dts=packet.dts,
                    pts=packet.pts,
                    key=packet.is_keyframe,
                    data=bytes(packet),
                )
            )
    return Source(video=video, audio=audio, packets=tuple(packets))
