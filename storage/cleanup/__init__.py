"""Removal of what is no longer needed: `orphans` (objects without a row) and `expired_uploads`.

What no row references goes to the trash (`storage.objects.trash`), since a database from a backup
does not know what is newer. `headend.roles` deletes the recordings whose time is over, as their
rows say.
"""
