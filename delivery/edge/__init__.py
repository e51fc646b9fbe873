"""The newest parts and playlists, cached in memory for viewers.

Read `base` (the protocol) first, then `memory`, which is all that one process needs: it keeps a
`live_view` of each run, and requests for parts that are not listed yet in `waiting`. With Redis,
`publishing` also writes to Redis what a process makes, `remote` reads it in processes that only
serve viewers, and `shared` combines both; `changes` encodes what they exchange, `redis` keeps it.
Nothing is stored here for good: see `storage.objects`.
"""
