"""Access to the whole catalog for operators and cleanups.

`health` finds damage and stuck jobs, `references` which objects the rows refer to. `copying` copies
all rows to another database. Nothing here changes a row.
"""
