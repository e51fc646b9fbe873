"""Recorded sessions, mutated at random: any bytes give events or an `RtmpError`.

Each run is generated from a number, which a failure names: `survive(NUMBER)` repeats it.
"""

import random
import time
from functools import cache

import pytest

from ingest.rtmp.errors import RtmpError
from media.packet import MediaPacket
from tests.ingest.rtmp.test_session_captures import CAPTURES
from tests.support.ingest.rtmp_peer import cut, feed, session

OPENING = 3073  # C0 to C2
NAMES = sorted(path.stem for path in CAPTURES.glob("*.bin"))
# Boundary values of fields: lengths, chunk sizes, markers, packet types.
EDGES = (0x00, 0x01, 0x03, 0x07, 0x11, 0x16, 0x7F, 0x80, 0x90, 0x96, 0x97, 0xC3, 0xFE, 0xFF)
SECONDS = 150.0  # of the long run


@cache
def recorded(name: str) -> bytes:
    return (CAPTURES / f"{name}.bin").read_bytes()


def mutated(chance: random.Random) -> bytes:
    """Return a recorded session with 1 to 12 mutations, most of them after the handshake."""
    data = bytearray(recorded(chance.choice(NAMES)))
    for _ in range(chance.randint(1, 12)):
        least = OPENING if chance.random() < 0.95 and len(data) > OPENING else 0
        # Early bytes have more effect than late ones.
        offset = least + int((len(data) - least) * chance.random() ** 3)
        size = chance.choice((1, 1, 1, 2, 4, 16, 200))
        match chance.randrange(6):
            case 0:
                data[offset : offset + 1] = bytes((chance.choice(EDGES),))
            case 1:
                data[offset : offset + size] = chance.randbytes(size)
            case 2:
                del data[offset : offset + size]
            case 3:
                data[offset:offset] = chance.randbytes(size)
            case 4:
                data[offset:offset] = data[offset : offset + size]
            case _:
                other = recorded(chance.choice(NAMES))
                start = chance.randrange(len(other))
                data[offset : offset + size] = other[start : start + chance.choice((16, 200, 5000))]
    return bytes(data)


def survive(number: int) -> bool:
    """Feed one mutated session; return whether it ended with an error."""
    chance = random.Random(number)
    data = mutated(chance)
    server = session()
    size = 0
    try:
        for piece in cut(data, chance.sample(range(len(data)), min(8, len(data)))):
            events = feed(server, [piece])
            size += sum(len(event.data) for event in events if isinstance(event, MediaPacket))
            server.tick(0.0)
    except RtmpError:
        return True
    except BaseException as error:
        error.add_note(f"session number {number}")
        raise
    finally:
        # The packets are never larger than the input.
        assert size <= len(data), f"session number {number}"
        server.outgoing()
    return False


def test_broken_sessions_give_events_or_an_error() -> None:
    ended = sum(survive(number) for number in range(250))
    # Most mutations end a session, and some hit bytes without effect.
    assert 50 < ended < 250


@pytest.mark.prove
def test_broken_sessions_give_events_or_an_error_for_minutes() -> None:
    began = time.monotonic()
    number = 1000
    while time.monotonic() - began < SECONDS:
        survive(number)
        number += 1
    assert number > 2000
