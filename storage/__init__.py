"""Everything that outlives a process, or passes between processes.

`objects` stores media as whole objects by address; `edge` caches the newest parts and playlists in
memory. `live` publishes the runs of live streams and `recording` turns them into videos. `catalog`
is the database, `bus` carries messages between processes, `cleanup` removes what no row references.
The modules beside these packages are rules without I/O that several packages share: `file_intake`,
`fetch_policy`, `job_leases`, `eta`; `quotas` queries the catalog. All errors descend from
`errors.StorageError`.

Start with `objects.base` and `objects.addresses`, then `live.publication`.
"""
