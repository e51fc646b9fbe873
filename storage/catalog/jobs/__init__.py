"""Work that some process is to do: one table of leases, whatever the kind.

`jobs` lists the kinds, and adds, leases and ends rows; `queue` finds the row that is leased next.
What a kind is about, and what its outcome changes, is with its noun, as in
`storage.catalog.videos`. The rules of leases are in `storage.leases`.
"""
