"""How a process carries out the catalog's jobs, whatever their kind.

`leased_task` is the life cycle of one leased job or span: heartbeats while the work is done, then
finish, fail, put back or give back. `worker_pool` leases work again and again and does it, several
at a time. `store_health` reports whether the disk and the database are well; `patient_objects` and
`catalog_retry` write to them when they are. What the work is: `transcode.vod` (videos and their
spans) and `transcode.imports`. The rules of leases are in `storage.job_leases`.
"""
