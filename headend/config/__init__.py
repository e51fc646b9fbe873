"""What an operator configures: `settings` (sections, defaults, sources) and `listen_sockets`.

Limits that belong to other packages (RTMP, uploads, broadcaster) are defined there and only
collected here.
"""
