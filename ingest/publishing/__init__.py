"""The door for encoders of any protocol: who is admitted, who may publish, and what is said of it.

A listener of any protocol has an encoder admitted when it connects, asks for permission with the
key that it brings, and passes its media to the session that it gets. Nothing here knows how an
encoder is spoken to.

Read in this order: `service` (the door, and one encoder's way through it), `admission` (limits by
address, and what wrong keys cost), `log_throttle` (bounds the log of a flood).
"""
