"""What an operator configures: `settings` (sections, defaults, sources) and `listen_sockets`.

`section` describes settings and shows them; `host_settings`, `storage_settings` and
`backup_settings` hold sections of their own.

Limits that belong to other packages (RTMP, uploads, broadcaster) are defined there and only
collected here.
"""
