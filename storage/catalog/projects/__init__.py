"""Projects (`repository`), and the installation's own row with its first start (`installation`).

Finding a project within a transaction is `storage.catalog.queries.project_lookup`.
"""
