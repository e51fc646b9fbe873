"""What the handlers of all nouns use.

Read `operation` first: how an operation is declared, and the call that its handler gets. Errors:
`errors`. Requests: `auth`, `rate_limit`, `fair_share`,
`concurrency_limit`, `client_address`, `preconditions`, `known_query`, then the bodies `json_body`,
`multipart` (`filenames`, `multipart_schemas`) and `tus`. Lists: `parameters`, `paging`. Browsers:
`cors`, `options`, `browser_sessions`, `security_headers`. Responses that bypass Litestar (origin,
pages, static files): `response`, with `conditional`, `open_file` and `static_files`. Around all of
it: `access_log` and `openapi`. No endpoints and no bodies of a noun.
`application` is what a server asks of an ASGI application, its fast path among it.
"""
