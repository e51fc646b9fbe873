"""The clock is read off a virtual display while a program shows it."""

import os
import shutil
import subprocess
import time

import pytest

from bench.latency.clock import BITS
from bench.players.screen import SIZE, screen
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e


@pytest.mark.prove
def test_a_clock_on_the_display_is_read() -> None:
    width, height = SIZE
    shown_at = int(time.time() * 1000) - 5000
    code = shown_at % (1 << BITS)
    bit = f"mod(floor({code}/pow(2,floor(X*{BITS}/W))),2)"
    cells = f"if(lt(Y,H/9),255*{bit},if(lt(Y,2*H/9),255-255*{bit},128))"
    picture = f"color=s={width}x{height}:r=5,format=gray,geq=lum='{cells}'"
    player = shutil.which("ffplay")
    assert player is not None, "apt-get install ffmpeg"
    with screen() as display:
        assert display.shown == []
        with subprocess.Popen(
            [player, "-v", "error", "-noborder", "-left", "0", "-top", "0", "-f", "lavfi", picture],
            env={**os.environ, "DISPLAY": display.display, "SDL_AUDIODRIVER": "dummy"},
        ) as playing:
            poll(lambda: len(display.shown) > 3, what="pictures of the display")
            playing.kill()
        assert {each.drawn for each in display.shown} == {shown_at}
