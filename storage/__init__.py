"""Everything that outlives a process, or passes between processes.

`objects` stores media as whole objects by address. `catalog` is the database, `bus` carries
messages between processes, `cleanup` removes what no row references, `backups` copies both, and
`workers` do what is queued in the catalog. Beside these packages: rules without I/O (`leases`,
`eta`), the path of a file into a video (`file_intake`), `quotas`, the key that ties catalog and
media together (`installation_key`), the lease of the media (`store_lease`, `lease_verdict`), and
what shared tasks need (`single_flight`, `cancellation`, `wall_clock`). Errors descend from
`errors.StorageError`, except `FileRefused`, which is an answer to the owner.

Start with `objects.base` and `objects.addresses`.
"""
