"""What the handlers of all nouns use.

Read `operation` first: how an operation is declared, and the call that its handler gets. Errors:
`errors`. Requests: `auth`, `caller_limits`, `client_address`, `routes`, `conditional`, then the
bodies `json_body`, `multipart` and `tus`. Lists: `parameters`. Browsers: `browser_headers`,
`browser_sessions`. Responses that bypass Litestar (origin, pages, static files): `response`, with
`open_file` and `static_files`. Around all of it: `access_log` and `openapi`. `application` is what
a server asks of an ASGI application, its fast path among it. No endpoints and no bodies of a noun.
"""
