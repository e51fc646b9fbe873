"""The web-socket broadcaster: the Pusher Channels protocol, version 7.

`protocol` is the sans-IO session of one connection, `hub` the subscriptions of a process, `socket`
the ASGI application that connects both, `delivery` the pump from the catalog's notices to the hub.
`private` authorises private channels, `grants` knows which authorisations still hold, `signed`
accepts events over HTTP, `limits` are the settings. Which events the service itself sends is
decided in `storage`.
"""
