"""What viewers get: live runs and recordings, from an engine's reports to the playlists and media.

`run` publishes the runs of live streams and stores them, `edge` caches the newest parts and
timelines in memory, `playlists` makes text of timelines, and `recording` turns runs, and clips of
them, into videos. What outlives a process (objects, rows, notices) is in `storage`; who asks for it
is in `api.origin`.

Start with `run.publication`.
"""
