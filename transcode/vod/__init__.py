"""Uploaded files become VOD assets: adaptive playlists with posters, previews and subtitles.

Read `job` first (how a job is leased and done), then `asset_attempt` (what one attempt makes in one
piece), `span_job` (the spans of a long asset, which all workers share) and `assembler` (all pieces
become playlists). `asset_plan` has the rules, which are pure; `engine_task` runs one engine,
`rendition_store` stores its segments, `playlists`, `images` and `subtitles` store the rest;
`attempt_cleanup` removes unreferenced folders. `core_budget` bounds how much runs at once.
`recording_previews` is a job of its own, for recordings. Decoding and encoding are in
`transcode.engine`.
"""
