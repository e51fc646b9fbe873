"""Videos whose files are fetched from other servers.

Read `importer` (one job: download, probe, hand over), then `download` (one file, with redirects,
retries and limits) and `http_client` (one request to a checked address). Which addresses may be
fetched is decided in `storage.fetch_policy`; the life cycle of a job is in `transcode.jobs`.
"""
