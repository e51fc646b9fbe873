"""How a process carries out the catalog's work, whatever its kind.

`context` is what all of it is done with. `leased_task` is the life cycle of one lease: heartbeats
while the work is done, then finish, fail, put back or give back. `worker_pool` leases work of a
source again and again and does it, several at a time. `store_health` reports whether the disk and
the database are well; `patient_objects` and `catalog_retry` write to them when they are. What the
work is: `transcode.vod` (videos, their spans and previews) and `transcode.imports`. The rules of
leases are in `storage.leases`.
"""
