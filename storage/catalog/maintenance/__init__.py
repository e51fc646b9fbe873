"""Access to the whole catalog for operators and cleanups.

`health` finds damage and stuck jobs, `references` which objects the rows refer to. `copying` copies
all rows to another database, and `snapshot` to a file, for a backup. `workload` counts what there
is to do. These change no row.
`cdn_folders` are the folders of copies for a CDN, which cleanups withdraw.
"""
