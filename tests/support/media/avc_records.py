"""Decoder configuration records of H.264, made of parameter sets (ISO/IEC 14496-15, 5.3.3.1)."""

from media.codecs.sps import PROFILES_WITH_CHROMA, parse_sps


def config_of(sps: bytes, pps: bytes) -> bytes:
    """Return the decoder configuration record of an SPS and a PPS, with 4-byte lengths.

    Luma and chroma have one bit depth. Raises CodecError if the SPS is invalid.
    """
    facts = parse_sps(sps)
    record = bytes((1, sps[1], sps[2], sps[3], 0xFF, 0xE1))
    record += len(sps).to_bytes(2, "big") + sps + b"\x01" + len(pps).to_bytes(2, "big") + pps
    if sps[1] in PROFILES_WITH_CHROMA:
        depth = 0xF8 | facts.bit_depth - 8
        record += bytes((0xFC | facts.chroma_format, depth, depth, 0))
    return record
