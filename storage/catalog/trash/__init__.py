"""The trash: what was deleted or replaced, listed, restored, removed for good (`catalog.trash`).

`repository` has the operations, `restoring` puts the rows of a record back. How something gets
there is with its noun, by `storage.catalog.queries.trash_rows`.
"""
