"""Sends a file with FFmpeg's RTMP muxer; the arguments are the file and a URL.

It is a separate process since the muxer's socket calls hold the GIL.
"""

import sys
import time

import av


def mux(path: str, url: str) -> None:
    with av.open(path) as source, av.open(url, "w", format="flv") as target:
        # PyAV leaves the kind of its packets and the options of its streams without a type.
        outputs = [target.add_stream_from_template(stream) for stream in source.streams]  # pyright: ignore[reportUnknownMemberType]
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = outputs[packet.stream.index]
                target.mux(packet)  # pyright: ignore[reportUnknownMemberType]
                time.sleep(0.003)  # a real encoder does not end as soon as it begins


if __name__ == "__main__":
    mux(*sys.argv[1:])
