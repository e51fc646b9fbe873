"""uvicorn inside the service: `server` runs it, `limits` and `websockets` bound its protocols.

`fast_path` answers media requests without ASGI, `metrics` counts answers. The applications are
in `api`.
"""
