"""Everything that outlives a process, or passes between processes.

`objects` stores media as whole objects by address; `edge` caches the newest parts and playlists in
memory. `live` publishes the runs of live streams and `recording` turns them into videos. `catalog`
is the database, `bus` carries messages between processes, `cleanup` removes what no row references.
Beside these packages: rules without I/O (`fetch_policy`, `job_leases`, `eta`), the path of a file
into a video (`file_intake`), `quotas`, the key that ties catalog and media together
(`installation_key`), and what shared tasks need (`single_flight`, `cancellation`, `wall_clock`).
Errors descend from `errors.StorageError`, except `BadWebAddress` and `FileRefused`, which are
answers to the owner.

Start with `objects.base` and `objects.addresses`, then `live.publication`.
"""
