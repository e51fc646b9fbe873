"""The probe of an uploaded file: true figures of good ones, a sentence about bad ones."""

import http.server
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import film, probed, refusal
from tests.support.transcode.corpus_bytes import later_fragments

ROOT = Path(__file__).parents[4]
X264 = ("-c:v", "libx264", "-preset", "ultrafast")


def test_an_mp4_is_probed(tmp_path: Path) -> None:
    media = probed(film(tmp_path / "a.mp4", *X264, "-c:a", "aac"))
    assert abs(media.length_us - 3_000_000) < 50_000
    assert (media.width, media.height, media.rate) == (320, 180, 25_000)
    assert (media.video_codec, media.audio_codec, media.rotation) == ("h264", "aac", 0)
    assert "mp4" in media.container


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        ("a.mkv", (*X264, "-c:a", "flac")),
        ("a.webm", ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")),
        ("a.ts", (*X264, "-c:a", "aac")),
        ("a.avi", ("-c:v", "mpeg4", "-c:a", "pcm_s16le")),
        ("a.mpg", ("-c:v", "mpeg2video", "-c:a", "mp2")),
        ("a.flv", (*X264, "-c:a", "aac")),
        ("a.mov", (*X264, "-c:a", "alac")),
        ("a.ogg", ("-c:v", "libtheora", "-c:a", "libvorbis")),
    ],
)
def test_every_format_of_the_list_is_read(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    media = probed(film(tmp_path / name, *coding))
    assert (media.width, media.height) == (320, 180)
    assert abs(media.length_us - 3_000_000) < 200_000
    assert media.audio_codec is not None


def test_the_name_of_a_file_is_of_no_account(tmp_path: Path) -> None:
    film(tmp_path / "a.mkv", *X264, "-c:a", "aac").rename(tmp_path / "a.mp3")
    assert probed(tmp_path / "a.mp3").width == 320


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.mp4", 2),
        ("a.mp4", 1_764_360_000),
        ("a.mov", 90_000),
        ("a.flv", 7_200),
        ("a.mkv", 7_200),
    ],
)
def test_a_length_does_not_depend_on_when_the_times_begin(
    tmp_path: Path, name: str, begins: int
) -> None:
    """Fragments of a recorder are dated from when it was switched on, or from 1970."""
    path = tmp_path / name
    fragments = ("-movflags", "frag_keyframe+empty_moov") if path.suffix in (".mp4", ".mov") else ()
    later = () if fragments else ("-output_ts_offset", str(begins))
    film(path, *X264, "-g", "25", "-c:a", "aac", *fragments, *later, size=(64, 36))
    if fragments:
        path.write_bytes(later_fragments(path.read_bytes(), begins))
    assert abs(probed(path).length_us - 3_000_000) < 100_000


@pytest.mark.parametrize(
    ("name", "coding", "estimated"),
    [
        ("a.aac", ("-c:a", "aac"), True),
        ("a.mp3", ("-c:a", "libmp3lame", "-q:a", "4", "-write_xing", "0"), True),
        ("b.mp3", ("-c:a", "libmp3lame", "-q:a", "4"), False),
    ],
)
def test_a_length_by_the_bit_rate_is_an_estimate(
    tmp_path: Path, name: str, coding: tuple[str, ...], estimated: bool
) -> None:
    """Silence and then noise: frames at the beginning are smaller than the others."""
    noise = "aevalsrc='if(gt(t,8),random(0)-0.5,0)':s=44100:d=10"
    ffmpeg("-f", "lavfi", "-i", noise, *coding, "-y", tmp_path / name)
    media = probed(tmp_path / name)
    assert media.estimated is estimated
    assert estimated or abs(media.length_us - 10_000_000) < 100_000


def test_pictures_that_stand_in_mpeg_ts_are_seen(tmp_path: Path) -> None:
    """The size of a picture is known only when others follow it."""
    slides = ("-f", "lavfi", "-i", "testsrc2=s=64x36:r=1/30:d=120")
    music = ("-f", "lavfi", "-i", "anullsrc=d=120", "-c:a", "libmp3lame")
    coding = (*X264, "-threads", "1", "-bf", "2", "-pix_fmt", "yuv420p")
    ffmpeg(*slides, *music, *coding, "-y", tmp_path / "a.ts")
    media = probed(tmp_path / "a.ts")
    assert (media.width, media.height) == (64, 36)


def test_sizes_are_those_of_the_upright_picture_with_square_pixels(tmp_path: Path) -> None:
    lying = film(tmp_path / "lying.mp4", *X264, sound=None)
    standing = tmp_path / "standing.mp4"
    ffmpeg("-i", lying, "-c", "copy", "-metadata:s:v", "rotate=90", "-y", standing)
    media = probed(standing)
    assert (media.width, media.height, abs(media.rotation)) == (180, 320, 90)
    assert (media.codec_width, media.codec_height) == (320, 180)
    wide = probed(film(tmp_path / "wide.mp4", *X264, "-aspect", "16:9", size=(240, 180)))
    assert (wide.width, wide.height, wide.codec_width) == (320, 180, 240)


def test_a_file_that_was_never_closed_is_measured_to_its_end(tmp_path: Path) -> None:
    whole = film(tmp_path / "a.mkv", *X264, "-live", "1", "-f", "matroska", sound=None)
    assert abs(probed(whole).length_us - 3_000_000) < 100_000


def test_sound_alone_has_no_size(tmp_path: Path) -> None:
    ffmpeg("-f", "lavfi", "-i", "sine=duration=2", "-y", tmp_path / "a.mp3")
    media = probed(tmp_path / "a.mp3")
    assert (media.width, media.height, media.video_codec) == (0, 0, None)
    assert abs(media.length_us - 2_000_000) < 100_000


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"This is a text and no film.\n" * 100, id="a text"),
        pytest.param(bytes(100_000), id="zeros"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", id="SVG"),
        pytest.param(b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n", id="SDP"),
        pytest.param(b"ffconcat version 1.0\nfile a.mp4\n", id="a list of files"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(64), id="a picture"),
    ],
)
def test_what_is_no_film_is_refused_with_a_sentence(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "a.mp4"
    bad.write_bytes(content)
    assert refusal(bad).startswith("The file cannot be read")


def test_a_playlist_reads_no_other_file_and_connects_to_no_server(tmp_path: Path) -> None:
    """Without the sandbox, the same texts make the library read files and connect to servers."""
    requests: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  # its name there

    secret = film(tmp_path / "secret.ts", *X264, "-c:a", "aac")
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        web = f"http://127.0.0.1:{server.server_port}/a.ts"
        for place in (secret.as_uri(), "secret.ts", web):
            bad = tmp_path / "a.mp4"
            bad.write_text(
                f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:3,\n{place}\n#EXT-X-ENDLIST\n"
            )
            assert refusal(bad).startswith("The file cannot be read")
        server.shutdown()
        thread.join()
    assert requests == []


def test_a_film_that_is_cut_off_before_its_index_is_refused(tmp_path: Path) -> None:
    whole = film(tmp_path / "a.mp4", *X264, "-c:a", "aac").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    assert refusal(tmp_path / "cut.mp4").startswith("The file cannot be read")


def test_a_picture_of_absurd_size_is_refused(tmp_path: Path) -> None:
    """Only the header claims the size; the file has no such picture."""
    whole = bytearray(film(tmp_path / "a.avi", "-c:v", "mjpeg", form="yuvj420p").read_bytes())
    header = whole.index(b"\xff\xc0", whole.index(b"movi"))
    while header > 0:
        whole[header + 5 : header + 9] = (30_000).to_bytes(2, "big") * 2
        header = whole.find(b"\xff\xc0", header + 1)
    offset = whole.index(b"strf") + 12
    whole[offset : offset + 8] = (30_000).to_bytes(4, "little") * 2
    (tmp_path / "big.avi").write_bytes(whole)
    assert refusal(tmp_path / "big.avi").startswith("The picture")


def test_an_engine_that_probes_can_open_no_file_and_no_socket(tmp_path: Path) -> None:
    """The attempts are made in the engine's own process, where an exploit would run."""
    path = film(tmp_path / "a.mp4", *X264, "-c:a", "aac")
    script = textwrap.dedent("""
        import errno, socket, sys
        from transcode.engine import main as engine
        def tried(descriptor, reports):
            said = []
            for attempt in (
                lambda: open("/etc/hostname"),
                lambda: open("/proc/self/environ"),
                lambda: socket.socket(),
            ):
                try:
                    attempt()
                    said.append("done")
                except OSError as error:
                    said.append(errno.errorcode[error.errno])
            sys.stderr.write(",".join(said))
            return found(descriptor, reports)
        found, engine.probe = engine.probe, tried
        sys.exit(engine.main(["probe"]))
    """)
    with path.open("rb") as file:
        completed = subprocess.run(
            [sys.executable, "-c", script],
            stdin=file,
            capture_output=True,
            check=True,
            timeout=30,
            cwd=ROOT,
        )
    assert completed.stderr == b"EPERM,EPERM,EPERM"
    assert b"probed" in completed.stdout
