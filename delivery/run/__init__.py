"""Runs of live streams: their segments in the store, and their playlists.

Read `run_state` first, then `publication` (shows an engine's media at the edge) and `run_writer`
(stores them). `step_builder` assembles an engine's reports, `run_timelines` keeps what playlists
list, `variants` builds the multivariant playlist, `stored_playlist` the media playlists on disk.
`expiry` decides what is deleted, `run_store` and `page_log` read a run back, and `run_objects`
refuses writes of a former owner.
Engines are in `transcode`.
"""
