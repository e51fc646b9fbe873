"""What operators and cleanups need of the whole catalog.

`health` finds damage and stuck jobs, `references` which objects the rows refer to. `copying` copies
all rows to another database. Nothing here changes a row.
"""
