"""Parsers of codecs' bit syntax: decoder configurations, picture sizes, keyframes, channels.

Not decoders: only headers are read. Any bytes give a value or `CodecError`.

One module a codec: `avc` (with `sps` and `sei`), `hevc`, `av1` and `vp9` for video, `aac`, `ac3`,
`flac`, `mp3` and `opus` for audio. `bits` has the bit reader and the error that they share;
`profiles` turns configurations into display names; `parameter_sets` puts those of H.264 before
keyframes.
"""
