"""Projects (`repository`), and the installation's own row with its first start (`installation`).

`removal` removes the rows of deleted projects, `usage` counts what a project uses, `overview` says
what is going on in several. `store_claims` is the catalog's half of the lease of its media. Finding
a project within a transaction is `storage.catalog.queries.project_lookup`.
"""
