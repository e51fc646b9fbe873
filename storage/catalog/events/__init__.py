"""Events, for owners and for subscribers.

`log` is each project's event log, `broadcast` the outbox of the web-socket broadcaster. Functions
that take a connection write within the transaction that makes the change.
"""
