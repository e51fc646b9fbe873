"""The RTMP and RTMPS server: sockets, connections, admission, and what they log.

The protocol is in `ingest.rtmp` (no I/O), streams and failover are in `ingest.stream`.

Read in this order: `listener` (accepts encoders, ends with a drain), `connection` (one encoder),
`admission` (limits by address), `read_batcher` (fewer wake-ups for publishers on air),
`log_throttle` (bounds the log of a flood).
"""
