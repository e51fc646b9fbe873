"""What all of the engine shares: pipeline stages, the report writer, the output clock, memory use.

Nothing here knows codecs. Start with `stage` and `reports`, then `read_reporter`, `clock` and
`memory`.
"""
