import os
import time

from transcode.live.cpu_idle import IdleMeter


def test_the_count_of_idle_cores_is_read_from_the_machine() -> None:
    meter = IdleMeter()
    began = time.monotonic()
    while time.monotonic() - began < 0.3:
        pass  # one core at work: this one
    idle = meter.idle(time.monotonic() - began)
    cores = os.cpu_count() or 1
    assert 0 <= idle <= cores - 0.5


def test_no_elapsed_time_gives_no_measure() -> None:
    assert IdleMeter().idle(0.0) == 0.0
