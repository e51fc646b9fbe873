"""Relays the media of publishers to the host that owns their stream.

A *host* is a process of the ingest role, the *owner* of a stream is the host that runs its engine,
and a host with an encoder of a stream that another host owns *relays* it. Which host owns a stream
is decided behind `ingest.stream.ports.StreamOwnership`. No address and no key is known here: TLS
contexts and sockets come as arguments.

Read in this order: `messages` (the protocol, without I/O), `link` (one connection between two
hosts), `handshakes` and `owner` (accept what other hosts relay), `media_ring` (what a relaying host
keeps), `owner_link` (its sessions at one owner), `relayed_session` (one encoder, across changes of
the owner) and `client` (all links to owners).
"""
