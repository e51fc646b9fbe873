"""uvicorn inside the service: `server` runs it, `limits` and `websockets` bound its protocols.

`connections` limits the number of connections, so that the rest of the process has `descriptors`.
`fast_path` answers media requests without ASGI, thousands of which can wait (`parked`); `metrics`
counts answers. `closing_answer` is the last answer to a peer before its connection is closed. The
applications are in `api`.
"""
