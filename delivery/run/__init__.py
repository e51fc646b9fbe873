"""Runs of live streams: their segments in the store, and their playlists.

Read `run_state` first, then `publication` (shows an engine's media at the edge) and `run_writer`
(stores what `store_queue` holds). `step_builder` assembles an engine's reports, `run_timelines`
keeps what playlists list, `variants` builds the multivariant playlist, `stored_playlist` the media
playlists on disk, and `borrowed_media` lists the media of another rendition for one that is shed.
`expiry` decides what is deleted, `run_store` and `page_log` read a run back, `shown_steps` what
viewers saw beyond it, and `run_objects` refuses writes of a former owner. Whoever follows a run
beside its viewers is one of its `observers`.
Engines are in `transcode`.
"""
