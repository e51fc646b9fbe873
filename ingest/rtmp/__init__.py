"""The server side of RTMP and Enhanced RTMP for publishers, without I/O: bytes in, events out.

No socket and no clock; sockets are in `ingest.server`. Every input leads to events or an
`RtmpError`, within the bounds of `limits`.

Read in this order: `session` (the entry point), `handshake`, `chunks`, `messages` with `amf`,
`amf0` and `amf3`, `dialogue` (commands) with `address` and `outbox`, then the media: `flv`,
`enhanced`, `metadata`, `codecs` and `clock`. `events` and `errors` are what comes out.
"""
