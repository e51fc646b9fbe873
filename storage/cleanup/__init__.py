"""Removal of what is no longer needed: `orphans` (objects without a row) and `expired_uploads`.

Recordings whose time is over are deleted by `headend.roles`, since their rows decide.
"""
