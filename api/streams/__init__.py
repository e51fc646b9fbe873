"""The operations on live streams.

Controllers: `collection` (the streams of a project), `item` (one stream and its backups),
`commands` (end, allow, pause, resume, drill a failover, change the key), `settings`, `slates`,
`clips`, `ingest_report` and `obs_profile`. Below them, `lookup` finds the stream of a path,
`command_client` sends commands to the ingest role, `schemas` holds the bodies and `presenter` fills
them, `obs_files` makes the files of a profile. Streams themselves are shown by
`api.schemas.presenter`. Read `lookup`, `collection`, `item`, then `command_client`.
"""
