"""Live streams.

`repository` adds, edits and deletes them, `queries` reads them within a transaction, `settings`
holds what their runs do, `live_state` their state on air, `commands` what the API requests of
ingest, `holds` which ended streams refuse encoders.
"""
