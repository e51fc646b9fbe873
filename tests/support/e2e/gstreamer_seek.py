"""Seeks in what GStreamer plays, in a process of its own: `python -m ... ADDRESS SECONDS`.

It prints where the player is two seconds after the seek, in seconds. There are no bindings of
GStreamer for Python without a package of the system, so this calls its library.
"""

import ctypes
import sys
import time

_PAUSED, _PLAYING = 3, 4
_TIME = 3  # GST_FORMAT_TIME
_FLUSH_TO_KEYFRAME = 1 | 4
_SECOND = 10**9
_PATIENCE = ctypes.c_uint64(20 * _SECOND)


def position_after_seek(address: str, seconds: int) -> float:
    """Play an address for a second, seek, and return the position two seconds later."""
    library = ctypes.CDLL("libgstreamer-1.0.so.0")
    library.gst_parse_launch.restype = ctypes.c_void_p
    library.gst_init(None, None)
    sink = '"fakesink sync=true"'
    sinks = f"video-sink={sink} audio-sink=fakesink text-sink={sink}"
    launch = f"playbin3 uri={address} {sinks}".encode()
    player = ctypes.c_void_p(library.gst_parse_launch(launch, None))
    for state in (_PAUSED, _PLAYING):
        library.gst_element_set_state(player, state)
        library.gst_element_get_state(player, None, None, _PATIENCE)
    time.sleep(1)
    moment = ctypes.c_int64(seconds * _SECOND)
    library.gst_element_seek_simple(player, _TIME, _FLUSH_TO_KEYFRAME, moment)
    library.gst_element_get_state(player, None, None, _PATIENCE)
    time.sleep(2)
    position = ctypes.c_int64(-1)
    library.gst_element_query_position(player, _TIME, ctypes.byref(position))
    return position.value / _SECOND


if __name__ == "__main__":
    print(position_after_seek(sys.argv[1], int(sys.argv[2])))  # noqa: T201  # its result
