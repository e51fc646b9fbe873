"""The messages between an engine process and its parent, and the parent's handle on that process.

Read `messages` (framing, the orders of a live run, the reports) first, then `file_messages` (orders
and reports for uploaded files), `watch_messages` (those of an engine that compares encoders),
`report_bounds` (what an engine of each kind may report), `engine_process` (spawn, send, receive,
end), `report_reader` (its reports, checked) and `file_engine` (a file's engine until its last
report). What an engine does with its orders is in
`transcode.engine`; what the parent decides is in `transcode.live` and `transcode.vod`.
"""
