"""Receives live streams: accepts encoders and decides which of them viewers see.

`rtmp` is the protocol without I/O and `server` has its connections, which `acceptor` accepts.
`publishing` decides which encoders may publish, whatever their protocol. `stream` assigns them to
slots and switches between them, `relay` passes media to the host that owns their stream, and
`report` says what an encoder sends. Nothing is decoded or stored here:
`stream.ports` names what this package needs of the rest of the service, and
`headend.roles.ingest_role` binds it.

Read in this order: `rtmp`, `server`, `publishing`, `stream`, then `report` and `relay`.
"""
