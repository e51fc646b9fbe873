"""Everything that decodes or encodes media.

`engine` is the child process that does it, in the `sandbox`; `protocol` is what it and its parent
send each other. The parent's side: `live` (runs of live streams), `vod` (uploaded files), `imports`
(files from other servers) and `inspect` (probes of uploads); `jobs` is the life cycle that work on
files shares. Nothing else in the project touches FFmpeg.
"""
