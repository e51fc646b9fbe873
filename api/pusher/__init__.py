"""The web-socket broadcaster: the Pusher Channels protocol, version 7.

`socket` takes connections, `protocol` is their dialogue, `hub` knows who hears what, `delivery`
brings the catalog's notices, `private` signs private channels, `signed` takes events over HTTP.
"""
