"""The roles of a process: ingest, origin and API, transcoding, or all of them.

`wiring` assembles them; `context` opens what they share, `redis_edges` what they share over Redis.
`ingest_role`, `origin_role` and `transcode_role` build the parts, with `adapters` for the ports of
`ingest`; `upload_intake` accepts files, and `mail` tells operators of alerts. `readiness`,
`operations`, `ingest_metrics` and `edge_metrics` report the state; `loop_watch` measures it.
"""
