"""The operations that receive files: videos and posters, resumable or in one request.

Controllers: `single_request` (forms), `resumable` (tus 1.0), `link_records` and `link_uploads`
(links that permit one upload without a token), and `imports` (files fetched from the web).

Below them, from the bottom: `intake` holds what every upload passes through, `video_form` and
`replace_file` receive forms, `receiver` appends to resumable uploads (`writer_turns`: one request
at a time), `creation` and `metadata` begin them, and `upload_operations` are the handlers that
`resumable` and `link_uploads` share. `schemas`, `presenter` and `openapi` describe uploads; their
settings are in `limits`. Read `intake`, `video_form` and `single_request` first, then `receiver`.
"""
