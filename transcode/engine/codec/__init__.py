"""Decoders, encoders and filters: the engine's wrapping of the FFmpeg libraries.

`decode` and `encode` are the codecs, `frame_format` and `scaler` bring decoded frames to the sizes
and colours of the ladder, and `jpeg` writes stills. Nothing here knows segments, files or orders.
"""
