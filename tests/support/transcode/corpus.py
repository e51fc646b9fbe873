"""The corpus: files as phones, cameras and editors make them, and the expected results.

`docs/formats.md` shows it as a table, one `line_of` for each item.
"""

from typing import Final

from tests.support.transcode.corpus_clips import AAC, X264, clip
from tests.support.transcode.corpus_items import (
    FAST,
    INDEX_FIRST,
    MAPPED,
    MPEG2,
    OPUS,
    PCM,
    PLAIN,
    Item,
    bright,
    x265,
)
from tests.support.transcode.odd_edits import ODD_EDITS
from tests.support.transcode.odd_files import ODDITIES
from tests.support.transcode.odd_times import ODD_TIMES
from tests.support.transcode.odd_tracks import ODD_TRACKS

_CONTAINERS: Final = (
    Item(
        "mp4-index-last.mp4",
        "MP4, H.264 and AAC, its index at the end",
        clip(*PLAIN),
        own=True,
        kept=True,
    ),
    Item(
        "mp4-index-first.mp4",
        "the same, its index at the beginning",
        clip(*PLAIN, *INDEX_FIRST),
        own=True,
        kept=True,
    ),
    Item(
        "mp4-fragmented.mp4",
        "the same, fragmented",
        clip(*PLAIN, "-movflags", "frag_keyframe+delay_moov+default_base_moof"),
        own=True,
        kept=True,
    ),
    Item("mov-h264.mov", "MOV, H.264 and PCM", clip(*X264, *PCM), own=True),
    Item("m4v-h264.m4v", "M4V, H.264 and AAC", clip(*PLAIN), own=True, kept=True),
    Item("mkv-h264.mkv", "MKV, H.264 and AAC", clip(*PLAIN), own=True, kept=True),
    Item("mkv-opus.mkv", "MKV, H.264 and Opus", clip(*X264, *OPUS), own=True),
    Item(
        "webm-vp8.webm",
        "WebM, VP8 and Vorbis",
        clip("-c:v", "libvpx", *FAST[:2], "-c:a", "libvorbis"),
    ),
    Item("webm-vp9.webm", "WebM, VP9 and Opus", clip("-c:v", "libvpx-vp9", *FAST, *OPUS)),
    Item(
        "webm-av1.webm",
        "WebM, AV1 and Opus",
        clip("-c:v", "libaom-av1", "-usage", "realtime", "-cpu-used", "8", *OPUS),
    ),
    Item(
        "mp4-av1.mp4",
        "MP4, AV1 and AAC",
        clip("-c:v", "libaom-av1", "-usage", "realtime", "-cpu-used", "8", *AAC),
        kept=True,
    ),
    Item(
        "avi-mpeg4.avi",
        "AVI, MPEG-4 and MP3",
        clip("-c:v", "mpeg4", "-bf", "2", "-c:a", "libmp3lame"),
    ),
    Item("avi-mjpeg.avi", "AVI, Motion JPEG and PCM", clip("-c:v", "mjpeg", *PCM, form="yuvj420p")),
    Item(
        "avi-raw.avi",
        "AVI, uncompressed",
        clip("-c:v", "rawvideo", *PCM, size=(160, 90)),
        size=(160, 90),
    ),
    Item(
        "avi-dv.avi",
        "AVI, DV of a tape, 5:4 with 16:15 pixels, interlaced",
        clip("-c:v", "dvvideo", *PCM, size=(720, 576), aspect="16/15", sound_rate=48_000),
        size=(768, 576),
    ),
    Item("mpegts-mpeg2.ts", "MPEG-TS, MPEG-2 and AC-3", clip(*MPEG2, "-c:a", "ac3")),
    Item("mpegts-h264.ts", "MPEG-TS, H.264 and AAC", clip(*PLAIN)),
    Item("mpegts-hevc.ts", "MPEG-TS, HEVC and AC-3", clip(*x265()[:-2], "-c:a", "ac3")),
    Item("mpegps-mpeg2.mpg", "MPEG-PS, MPEG-2 and MP2", clip(*MPEG2, "-c:a", "mp2")),
    Item(
        "vob-mpeg2.vob",
        "VOB of a DVD, MPEG-2 and AC-3, 4:3 with 16:15 pixels",
        clip(*MPEG2, "-c:a", "ac3", size=(720, 576), aspect="16/15"),
        size=(768, 576),
    ),
    Item("flv-h264.flv", "FLV, H.264 and AAC", clip(*PLAIN), own=True, kept=True),
    Item(
        "flv-sorenson.flv", "FLV, Sorenson H.263 and MP3", clip("-c:v", "flv", "-c:a", "libmp3lame")
    ),
    Item(
        "threegp-h263.3gp",
        "3GP of an old phone, H.263 and AAC",
        clip("-c:v", "h263", *AAC, size=(352, 288)),
        size=(352, 288),
        kept=True,
    ),
    Item(
        "ogg-theora.ogv",
        "Ogg, Theora and Vorbis",
        clip("-c:v", "libtheora", "-q:v", "6", "-c:a", "libvorbis"),
    ),
    Item("asf-wmv2.wmv", "WMV, WMV 8 and WMA", clip("-c:v", "wmv2", "-c:a", "wmav2")),
    Item(
        "dv-tape.dv",
        "DV of a tape, as cameras write it",
        clip("-c:v", "dvvideo", *PCM, size=(720, 576), aspect="16/15", sound_rate=48_000),
        size=(768, 576),
    ),
    Item("mxf-mpeg2.mxf", "MXF of a camera, MPEG-2 and PCM", clip(*MPEG2, *PCM, sound_rate=48_000)),
)
_CODECS: Final = (
    Item(
        "hevc-mov.mov", "MOV of a phone, HEVC and AAC", clip(*x265(), "-tag:v", "hvc1"), kept=True
    ),
    Item("hevc-10-bit.mp4", "HEVC with 10 bits", clip(*x265(), form="yuv420p10le"), kept=True),
    Item(
        "hevc-hlg.mov",
        "HEVC with 10 bits, BT.2020 and HLG, as phones film it",
        clip(*bright("arib-std-b67"), form="yuv420p10le"),
        kept=True,
        warning=MAPPED,
    ),
    Item(
        "hevc-pq.mp4",
        "HEVC with 10 bits, BT.2020 and PQ (HDR10)",
        clip(*bright("smpte2084"), form="yuv420p10le"),
        kept=True,
        warning=MAPPED,
    ),
    Item(
        "h264-10-bit.mp4",
        "H.264 with 10 bits",
        clip(*X264[:4], *AAC, form="yuv420p10le"),
        kept=True,
    ),
    Item("h264-422.mp4", "H.264 with 4:2:2", clip(*X264[:4], *AAC, form="yuv422p"), kept=True),
    Item(
        "h264-444.mp4",
        "H.264 with 4:4:4, as screens are recorded",
        clip(*X264[:4], *AAC, form="yuv444p"),
        kept=True,
    ),
    Item(
        "h264-rgb.mkv", "H.264 with RGB", clip("-c:v", "libx264rgb", *AAC, form="rgb24"), kept=True
    ),
    Item(
        "h264-full-range.mp4",
        "H.264 with the full range of levels",
        clip(*PLAIN, form="yuvj420p"),
        own=True,
        kept=True,
    ),
    Item(
        "prores-422.mov",
        "ProRes 422 HQ and PCM",
        clip("-c:v", "prores_ks", "-profile:v", "3", *PCM, form="yuv422p10le"),
    ),
    Item(
        "prores-4444.mov",
        "ProRes 4444 with transparency",
        clip("-c:v", "prores_ks", "-profile:v", "4", *PCM, form="yuva444p10le"),
    ),
    Item(
        "dnxhr.mov",
        "DNxHR SQ and PCM",
        clip("-c:v", "dnxhd", "-profile:v", "dnxhr_sq", *PCM, form="yuv422p"),
    ),
    Item("animation.mov", "QuickTime Animation, RGB", clip("-c:v", "qtrle", *PCM, form="rgb24")),
    Item("ffv1.mkv", "FFV1 and FLAC", clip("-c:v", "ffv1", "-c:a", "flac")),
)
CORPUS: Final = (*_CONTAINERS, *_CODECS, *ODDITIES, *ODD_TRACKS, *ODD_TIMES, *ODD_EDITS)
