"""Removal of what is no longer needed: `orphans` (objects without a row) and `expired_uploads`.

What no row references goes to the trash (`storage.objects.trash`), since a database from a backup
does not know what is newer. Recordings whose time is over are deleted by `headend.roles`, since
their rows decide.
"""
