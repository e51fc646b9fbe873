"""What an operator configures: `settings` (sections, defaults, sources) and `listen_sockets`.

`section` describes settings and shows them; `host_settings` and `storage_settings` hold two of the
larger sections.

Limits that belong to other packages (RTMP, uploads, broadcaster) are defined there and only
collected here.
"""
