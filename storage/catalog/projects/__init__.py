"""Projects (`repository`), and the installation's own row with its first start (`installation`).

`removal` removes the rows of deleted projects, `usage` counts what a project uses. Finding a
project within a transaction is `storage.catalog.queries.project_lookup`.
"""
