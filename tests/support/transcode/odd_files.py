"""The part of the corpus with odd pictures, sound or times, and with broken files."""

from typing import Final

from tests.support.transcode import corpus_clips
from tests.support.transcode.corpus_clips import AAC, X264, alone, clip, covered, cut_off, turned
from tests.support.transcode.corpus_items import (
    DAMAGED,
    INDEX_FIRST,
    MPEG2,
    OPUS,
    PLAIN,
    UNHEARD,
    Item,
    interlaced,
)

_PICTURES: Final = (
    *(
        Item(
            f"rate-{rate.replace('/', '-')}.mp4",
            f"{title} frames a second",
            clip(*PLAIN, rate=rate),
            own=own,
            kept=True,
        )
        for rate, title, own in (
            ("15", "15", True),
            ("24000/1001", "23.976", True),
            ("24", "24", True),
            ("30000/1001", "29.97", True),
            ("50", "50", True),
            ("60", "60", True),
            ("120", "120", False),
        )
    ),
    Item(
        "rate-1.mp4",
        "1 frame a second, as a slide show",
        clip(*PLAIN, rate="1", seconds=4),
        seconds=4,
        own=True,
        kept=True,
        flashes=0,
        beeps=4,
    ),
    Item(
        "rate-varies.mp4",
        "a frame rate that varies, as phones film",
        clip(
            *X264,
            *AAC,
            "-vsync",
            "passthrough",
            "-video_track_timescale",
            "90000",
            "-enc_time_base",
            "1/90000",
            filters="settb=1/90000,setpts='PTS+mod(N,3)*700'",
        ),
        own=True,
        kept=True,
    ),
    *(
        Item(
            f"turned-{degrees}.mp4",
            f"turned by {degrees} degrees with a matrix",
            turned(degrees),
            size=size,
            kept=True,
        )
        for degrees, size in ((90, (180, 320)), (180, (320, 180)), (270, (180, 320)))
    ),
    Item(
        "portrait.mp4",
        "upright, 9:16",
        clip(*PLAIN, size=(180, 320)),
        size=(180, 320),
        own=True,
        kept=True,
    ),
    Item(
        "odd-size.mp4",
        "an odd size, 641x361",
        clip(*X264[:4], *AAC, size=(641, 361), form="yuv444p"),
        size=(640, 360),
        kept=True,
    ),
    Item(
        "wide-pixels.mp4",
        "pixels that are not square, 240x180 with 4:3",
        clip(*PLAIN, size=(240, 180), aspect="4/3"),
        size=(320, 180),
        kept=True,
    ),
    *(
        Item(
            f"interlaced-{codec}-{order}.{ending}",
            f"interlaced {title}, {words} field first",
            clip(
                *coding,
                "-flags",
                "+ildct+ilme",
                "-c:a",
                "mp2",
                rate="50",
                filters=interlaced(order == "tff"),
            ),
        )
        for codec, title, ending, coding in (
            ("mpeg2", "MPEG-2", "mpg", MPEG2),
            ("h264", "H.264", "mkv", X264),
        )
        for order, words in (("tff", "upper"), ("bff", "lower"))
    ),
    Item(
        "avchd.m2ts",
        "AVCHD of a camcorder, interlaced H.264 and AC-3",
        clip(
            *X264,
            "-flags",
            "+ildct+ilme",
            "-c:a",
            "ac3",
            "-mpegts_m2ts_mode",
            "1",
            rate="50",
            filters=interlaced(top=True),
        ),
    ),
    Item(
        "long-groups.mp4",
        "keyframes 8 s apart",
        clip(*PLAIN, "-g", "200", seconds=9),
        seconds=9,
        kept=True,
        flashes=9,
        beeps=9,
    ),
    Item(
        "open-groups.mp4",
        "open groups of pictures",
        clip(*X264, "-x264-params", "open-gop=1:keyint=25:bframes=3", *AAC),
        own=True,
        kept=True,
    ),
    Item(
        "pyramid.mp4",
        "five B-frames in a pyramid",
        clip(*X264, "-x264-params", "b-pyramid=normal:bframes=5", *AAC),
        own=True,
        kept=True,
    ),
    Item(
        "one-picture.mp4",
        "one picture",
        clip(*X264, "-frames:v", "1", sound=None),
        seconds=0.04,
        own=True,
        sound=False,
        flashes=0,
        beeps=0,
    ),
)
_SOUNDS: Final = (
    Item(
        "two-sounds.mkv",
        "two tracks of sound, the second the default",
        corpus_clips.two_sounds,
        own=True,
        kept=True,
    ),
    Item(
        "silent.mp4",
        "a picture without sound",
        clip(*X264, sound=None),
        own=True,
        sound=False,
        beeps=0,
    ),
    *(
        Item(f"sound-{ending}.{ending}", f"{title} alone", alone(*coding), size=None, flashes=0)
        for ending, title, coding in (
            ("mp3", "MP3", ("-c:a", "libmp3lame")),
            ("m4a", "M4A, a voice memo,", AAC),
            ("flac", "FLAC", ()),
            ("wav", "WAV", ()),
            ("opus", "Opus", OPUS),
            ("aac", "AAC", AAC),
            ("wma", "WMA", ("-c:a", "wmav2")),
        )
    ),
    Item(
        "sound-cover.m4a",
        "M4A with a cover",
        covered(alone(*AAC), "m4a", "-disposition:v", "attached_pic"),
        size=None,
        flashes=0,
    ),
    Item("surround.mp4", "5.1 sound, AAC", clip(*X264, *AAC, sound="5.1"), own=True),
    Item("surround-ac3.mkv", "5.1 sound, AC-3", clip(*X264, "-c:a", "ac3", sound="5.1"), own=True),
    Item(
        "mono-22-khz.mp4",
        "one channel of 22.05 kHz",
        clip(*X264, *AAC, sound="mono", sound_rate=22_050),
        own=True,
    ),
    Item(
        "sound-longer.mp4",
        "sound that is a second longer than the picture",
        clip(*PLAIN, heard=4),
        seconds=4,
        own=True,
        kept=True,
        beeps=4,
    ),
    Item(
        "still.mp4",
        "one picture with 5 s of sound",
        corpus_clips.still,
        seconds=5,
        kept=True,
        flashes=0,
        beeps=5,
    ),
    Item(
        "sound-shorter.mp4",
        "sound that is a second shorter than the picture",
        clip(*PLAIN, heard=2),
        own=True,
        beeps=2,
    ),
)
_TIMES: Final = (
    Item(
        "picture-later.mkv",
        "a picture that begins 0.25 s after the sound",
        corpus_clips.apart(0.25, 0),
        own=True,
        kept=True,
        heard=0.15,
    ),
    Item(
        "sound-later.mkv",
        "sound that begins 0.5 s after the picture",
        corpus_clips.apart(0, 0.5),
        own=True,
        seconds=3.5,
        heard=0.9,
    ),
    Item("late-start.ts", "times that begin at 9 000 s", clip(*PLAIN, "-output_ts_offset", "9000")),
    Item(
        "trimmed.mp4",
        "trimmed on the phone by an edit list",
        corpus_clips.trimmed,
        seconds=3.3,
        first=0.7,
        kept=True,
    ),
    Item(
        "leap.mkv",
        "times that leap by 100 s",
        corpus_clips.gapped,
        warning="The times in the file leap: what lies before and after was joined.",
    ),
    Item("subtitles.mkv", "subtitles inside", corpus_clips.subtitled, own=True, kept=True),
    Item(
        "cover.mp4",
        "a cover besides the picture",
        covered(clip(*PLAIN), "mp4", "-disposition:v:1", "attached_pic"),
        own=True,
        kept=True,
    ),
)
_BROKEN: Final = (
    Item(
        "cut-off-index-first.mp4",
        "MP4, cut off, its index at the beginning",
        cut_off(
            clip(*PLAIN, *INDEX_FIRST, seconds=6),
            0.6,
        ),
        seconds=2.64,
        kept=True,
        warning="The file claims 6.0 s, but ends after 2.6 s: it may be cut off.",
    ),
    Item(
        "cut-off-index-last.mp4",
        "MP4, cut off before its index",
        cut_off(clip(*PLAIN), 0.6),
        refused="The file cannot be read",
    ),
    Item(
        "cut-off.mkv",
        "MKV, cut off",
        cut_off(
            clip(*PLAIN, seconds=6),
            0.6,
        ),
        seconds=3.62,
        own=True,
        kept=True,
        flashes=4,
        beeps=4,
        warning="The file claims 6.0 s, but ends after 3.6 s: it may be cut off.",
    ),
    Item(
        "cut-off.ts",
        "MPEG-TS, cut off",
        cut_off(
            clip(*PLAIN, seconds=6),
            0.6,
        ),
        seconds=3.86,
        flashes=4,
        beeps=3,
    ),
    Item(
        "damaged.mp4",
        "damaged pictures in the middle",
        corpus_clips.damaged(clip(*PLAIN)),
        warning=f"{DAMAGED} {UNHEARD}",
    ),
    Item(
        "damaged.ts",
        "damaged packets of MPEG-TS",
        corpus_clips.damaged(clip(*PLAIN)),
        beeps=1,
        warning=UNHEARD,
    ),
    Item(
        "no-samples.mp4",
        "MP4 without a picture and without sound",
        corpus_clips.blank,
        refused="The sound cannot be decoded: the file is damaged, cut off or protected.",
    ),
    Item(
        "nothing.mp4",
        "a file without a byte",
        corpus_clips.nothing,
        refused="The file cannot be read",
    ),
    Item(
        "animated.gif",
        "an animated GIF",
        clip(sound=None),
        refused="The file cannot be read",
    ),
    Item(
        "text.mp4", "a text named like a film", corpus_clips.text, refused="The file cannot be read"
    ),
)
ODDITIES: Final = (*_PICTURES, *_SOUNDS, *_TIMES, *_BROKEN)
