"""The HTTP side of the service: the API, the console, the public pages, and the origin of media.

`http` has what all handlers use, `schemas` what several nouns share. The operations are in a
package a noun: `streams`, `videos`, `uploads` (with the checks of `intake`), `library` and
`operations`. `console` and `pages` are for people, `origin` serves media, `pusher` web-sockets, and
`status` health and metrics. Sockets and processes belong to `headend`, records and media to
`storage`; `ports` names the rest of what is needed, and `headend.roles.wiring` binds it.

Start with `app`, which assembles it, then `http` and one noun, for example `streams`.
"""
