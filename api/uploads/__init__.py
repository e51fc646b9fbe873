"""The operations that receive files: videos and posters, resumable or in one request.

Controllers: `single_request` (forms), `resumable` (tus 1.0), `link_records` and `link_uploads`
(links that permit one upload without a token), `imports` (files fetched from the web), and
`source_file` (a video's file sent back).

Below them, from the bottom: `video_form` and `replace_file` receive forms, `receiver` appends to
resumable uploads, `creation` and `metadata` begin them, and `upload_operations` are the handlers
that `resumable` and `link_uploads` share. `schemas`, `presenter` and `openapi` describe uploads.
Read `api.intake.upload_intake`, `video_form` and `single_request` first, then `receiver`.
"""
