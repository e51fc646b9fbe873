"""The origin: serves playlists, segments, parts, posters and previews to players.

`routes` maps paths to stored objects, `access` decides the access of viewers (a pure function),
`visibility` looks up and caches the records, `geo` finds the country of a viewer. `directives`
reads the query of a playlist, `playlist_cache` keeps rendered playlists, `store_requests` and
`absences` spare the store requests, and `redirects` sends viewers to a bucket or a CDN. `origin` is
the ASGI application and the fast path. Pages that play these media are in `api.pages`.
"""
