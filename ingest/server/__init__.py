"""The RTMP and RTMPS server: sockets, connections, and how they end.

The protocol is in `ingest.rtmp` (no I/O), permission to publish in `ingest.publishing`, streams and
failover are in `ingest.stream`.

Read in this order: `listener` (accepts encoders, ends with a drain), `connection` (one encoder),
`tls_layer` (RTMPS: between a socket and its connection), `read_batcher` (fewer wake-ups for
publishers on air).
"""
