"""What an operator configures: `settings` (sections, defaults, sources) and `listen_sockets`.

`section` describes settings and shows them; `host_settings`, `storage_settings`, `backup_settings`
and `mail_settings` hold sections of their own. `smtp_server` is the mail server of the last one.

Limits that belong to other packages (RTMP, uploads, broadcaster) are defined there and only
collected here.
"""
