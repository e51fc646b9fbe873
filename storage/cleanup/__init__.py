"""Removal of what is no longer needed.

`removals` are objects whose removal a transaction recorded, `orphans` those without a row,
`expired_uploads` and `former_files` what is in their names, and `withdrawn_copies` those for a CDN
of what not everyone may see any more.

What no row references goes to the trash (`storage.objects.trash`), since a database from a backup
does not know what is newer. `headend.roles` deletes the recordings whose time is over, as their
rows say.
"""
