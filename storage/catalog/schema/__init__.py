"""The tables, as the newest migration leaves them.

`tables` first, then `upload_tables` (recordings, uploads, imports, spans),
and `alert_tables` (what operators are told by mail).
"""
