"""uvicorn inside the service: `server` runs it, `limits` and `websockets` bound its protocols.

`connections` bounds their number, of which `descriptors` leaves some to the rest of the process.
`fast_path` answers media requests without ASGI, thousands of which can wait (`parked`); `metrics`
counts answers. The applications are in `api`.
"""
