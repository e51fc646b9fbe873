"""What a transaction on the catalog's file of SQLite costs, by the connection that runs it."""
