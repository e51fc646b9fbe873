"""The newest parts and playlists, cached in memory for viewers.

`base` is the protocol, `memory` the only implementation. Nothing is stored here for good: see
`storage.objects`.
"""
