"""The newest parts and playlists, cached in memory for viewers.

Read `base` (the protocol) first, then `memory`, which is all that one process needs. With Redis,
`publishing` also writes what a process makes, `remote` reads it in processes that serve viewers
only, and `shared` is both; `changes` is what crosses, `redis` where it is meanwhile. Nothing is
stored here for good: see `storage.objects`.
"""
