"""Messages that say "something changed", between tasks and processes.

`base` is the protocol and the bounded mailbox of a subscriber, `memory` works within one process,
`redis` between processes and machines. Messages may be lost, so they carry no state: the catalog
does.
"""
