"""Recordings: runs that become videos without being encoded again.

`recorder` follows runs and finalizes ended ones, `recording_store` links the media of one run,
`pages` holds its steps and builds its playlists, `finalize` adds the video. `clips` makes videos of
parts of runs. The rows are in `storage.catalog.videos.recordings` and `.clips`.
"""
