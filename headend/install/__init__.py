"""The data folder of an installation: its contents, locks and certificates, and `headend doctor`.

Read `installation` and `locks` first. `media_store` opens the store of the media, `media_copy`
copies them to another; `catalog_wait` waits for the database. `certificates` keeps that of RTMPS,
`relay_key` those of the hosts among themselves. `doctor` returns the `findings` that the command
prints, among them those of `certificate_check`, `mail_check`, `cdn_check` (by `anonymous_reads`),
`front_finding` and `redis_finding`. `system` puts the services in place where no package does.
`backup` copies an installation to a `backup_place`, and `restore` makes one from it.
"""
