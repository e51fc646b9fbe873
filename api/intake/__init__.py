"""What every upload passes, below the operations that receive one.

`upload_intake` has the checks before a body is read, the limits on concurrent uploads and the probe
of a received file; `limits` the settings of resumable uploads, `concurrency_limit` counts uploads
and their callers, `writer_turns` lets one request at a time append to one, and `form_schemas`
describes forms with files. The operations themselves are in `api.uploads`; clips and slates
(`api.streams`) pass the same checks.
"""
