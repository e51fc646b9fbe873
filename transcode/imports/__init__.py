"""Videos whose files are fetched from other servers.

Read `importer` (one job: download, probe, hand over), then `download` (one file, with redirects,
retries and limits). Which addresses may be fetched, and how, is in
`outbound`; the life cycle of a job is in `storage.workers`.
"""
