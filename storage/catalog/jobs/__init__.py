"""Work that some process is to do: one table of leases, whatever the kind.

`jobs` adds, leases and ends rows; `queue` finds the row that is leased next. The kinds, and what
their outcomes change, are with their nouns, as in `storage.catalog.videos`. The rules of leases are
in `storage.leases`.
"""
