"""Events, for owners and for subscribers.

`kinds` lists what can happen, one type each, and who is told; `announcement` writes what follows
from an event, within the transaction that makes the change. `log` is each project's event log,
`broadcast` the outbox of the web-socket broadcaster.
"""
