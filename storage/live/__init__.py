"""The live side of storage: runs, their segments on disk and their playlists.

Read `run_state` (steps, window, saved state) and `publication` (stores and lists segments) first.
`step_builder` assembles an engine's reports, `variants` computes the multivariant playlist,
`expiry` decides what is deleted, `run_store` finds runs after a restart. Engines are in
`transcode`.
"""
