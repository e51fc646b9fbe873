"""The origin: serves playlists, segments, parts, posters and previews to players.

Read `origin` first, the ASGI application and the fast path: it says in which order the others are
asked. `media_request` parses targets into values, `viewer` is who asks, `access` decides the access
of viewers (a pure function), `visibility` looks up and caches the records, `geo` finds the country
of a viewer. `directives` reads the query of a playlist, `blocking` lets requests wait for parts,
`representations` finds bytes, `store_requests`, `absences` and `playlist_cache` spare the store,
`redirects` sends viewers to a bucket or a CDN, and `refusals` are the answers to all others. Pages
that play these media are in `api.pages`.
"""
