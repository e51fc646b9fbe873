"""Transcoding: live runs, uploaded files, and the engine process that does the work.

The parent side is `live`, `vod`, `imports` and `inspect`; they start engines and store what these
report. `storage.workers` leases the work of `vod` and `imports`. `protocol` is what parent and
engine exchange, `sandbox` how an engine confines itself, and `engine` the child process, the only
place that touches FFmpeg.
"""
