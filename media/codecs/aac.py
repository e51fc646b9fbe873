"""Parses and builds the AudioSpecificConfig, the decoder configuration of AAC.

Any bytes give a value or `CodecError`. Rates are in Hz, frame lengths in samples a channel.
Sources: ISO/IEC 14496-3, 1.6.2.1 (AudioSpecificConfig), 1.6.6 (SBR and PS signalling), 4.4.1
(GASpecificConfig) and 4.4.1.1 (program_config_element).
"""

from typing import Final

import msgspec

from media.codecs.bits import BitReader, CodecError

AAC_LC: Final = 2
_SBR, _PS = 5, 29
_ER_BSAC = 22
# Object types followed by a GASpecificConfig (table 1.15).
_GENERAL: Final = frozenset({1, 2, 3, 4, 6, 7, 17, 19, 20, 21, 22, 23})
_RESILIENT: Final = frozenset({17, 19, 20, 21, 22, 23})
_SCALABLE: Final = frozenset({6, 20})

_RATES: Final = (
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025,
    8_000, 7_350,
)  # fmt: skip
_ESCAPE_RATE: Final = 15
_MAX_RATE: Final = 192_000
# channelConfiguration -> channels (table 1.19); 0: given by a program config element.
_CHANNELS: Final = {
    1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 13: 24, 14: 8,
}  # fmt: skip
_SBR_SYNC: Final = 0x2B7
_PS_SYNC: Final = 0x548


class AudioSpecificConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder configuration.

    `rate` and `channels` are the output of a decoder with SBR and PS; `core_rate` is the rate
    before SBR. `frame_length` is in samples of the core. `program`: the channels were counted in a
    program config element, whose channel order is free.
    """

    object_type: int
    rate: int
    core_rate: int
    channels: int
    frame_length: int = 1024
    sbr: bool = False
    ps: bool = False
    program: bool = False

    @property
    def codecs(self) -> str:
        """The RFC 6381 string, for example `mp4a.40.2`."""
        number = _PS if self.ps else _SBR if self.sbr else self.object_type
        return f"mp4a.40.{number}"

    @classmethod
    def parse(cls, data: bytes) -> "AudioSpecificConfig":
        """Parse an AudioSpecificConfig; bytes after its end are ignored.

        Raises:
            CodecError: it is truncated, or has a reserved value.
        """
        bits = BitReader(data)
        object_type = _object_type(bits)
        rate = core_rate = _rate(bits)
        layout = bits.u(4)
        sbr, ps = object_type in (_SBR, _PS), object_type == _PS
        if sbr:
            rate = _rate(bits)
            object_type = _object_type(bits)
            if object_type == _ER_BSAC:
                bits.u(4)
        program = layout == 0
        channels = 0 if program else _CHANNELS.get(layout, 0)
        if not program and not channels:
            raise CodecError(f"channel configuration {layout}")
        frame_length = 1024
        if object_type in _GENERAL:
            frame_length, counted = _general(bits, object_type, program)
            channels = counted if program else channels
            if not sbr:
                sbr, ps, rate = _extension(bits, core_rate)
        if ps and channels == 1:
            channels = 2
        return cls(
            object_type=object_type,
            rate=rate,
            core_rate=core_rate,
            channels=channels,
            frame_length=frame_length,
            sbr=sbr,
            ps=ps,
            program=program,
        )


def build(rate: int, channels: int) -> bytes:
    """Return the AudioSpecificConfig of AAC-LC with frames of 1024 samples.

    Raises:
        CodecError: no channel configuration has that many channels, or the rate is out of bounds.
    """
    layout = next((number for number, count in _CHANNELS.items() if count == channels), 0)
    if not layout:
        raise CodecError(f"{channels} channels")
    if not 0 < rate <= _MAX_RATE:
        raise CodecError(f"a rate of {rate} Hz")
    if rate in _RATES:
        return (AAC_LC << 11 | _RATES.index(rate) << 7 | layout << 3).to_bytes(2, "big")
    escaped = AAC_LC << 35 | _ESCAPE_RATE << 31 | rate << 7 | layout << 3
    return escaped.to_bytes(5, "big")


def _object_type(bits: BitReader) -> int:
    number = bits.u(5)
    number = 32 + bits.u(6) if number == 31 else number
    if number == 0:
        raise CodecError("object type 0")
    return number


def _rate(bits: BitReader) -> int:
    index = bits.u(4)
    if index < len(_RATES):
        return _RATES[index]
    rate = bits.u(24) if index == _ESCAPE_RATE else 0
    if not 0 < rate <= _MAX_RATE:
        raise CodecError("a reserved sampling frequency")
    return rate


def _general(bits: BitReader, object_type: int, program: bool) -> tuple[int, int]:
    """Read the GASpecificConfig; return its frame length and the channels its program counts."""
    frame_length = 960 if bits.u(1) else 1024
    if bits.u(1):
        bits.u(14)
    extension = bits.u(1)
    channels = _program(bits) if program else 0
    if object_type in _SCALABLE:
        bits.u(3)
    if extension:
        if object_type == _ER_BSAC:
            bits.u(16)
        elif object_type in _RESILIENT - {21}:
            bits.u(3)
        bits.u(1)
    if object_type in _RESILIENT:
        bits.u(2)
    return frame_length, channels


def _program(bits: BitReader) -> int:
    """Read a program config element and return how many channels it lists."""
    bits.u(10)
    front, side, back = bits.u(4), bits.u(4), bits.u(4)
    low, data, coupling = bits.u(2), bits.u(3), bits.u(4)
    for width in (4, 4, 3):  # mono, stereo and matrix mixdown
        if bits.u(1):
            bits.u(width)
    channels = low
    for _ in range(front + side + back):
        channels += 1 + bits.u(1)
        bits.u(4)
    bits.u(4 * (low + data) + 5 * coupling)
    bits.align()
    bits.u(8 * bits.u(8))
    return channels


def _extension(bits: BitReader, core_rate: int) -> tuple[bool, bool, int]:
    """Read the backward-compatible signalling at the end; return SBR, PS and the output rate."""
    if (
        bits.bits_left < 16
        or bits.u(11) != _SBR_SYNC
        or _object_type(bits) != _SBR
        or not bits.u(1)
    ):
        return False, False, core_rate
    rate = _rate(bits)
    ps = bits.bits_left >= 12 and bits.u(11) == _PS_SYNC and bits.u(1) == 1
    return True, ps, rate
