"""What operators and the janitor ask of the whole catalog.

`health` finds damage and stuck jobs, `references` which objects the rows refer to. Nothing here
changes a row.
"""
