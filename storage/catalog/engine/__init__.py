"""Connections to the database, its transactions and its errors.

`database` is the interface: reading, writing and migrating transactions on either database.
`postgres` and `sqlite` create the connections and translate errors; `sqlite_reader`,
`sqlite_writer` and `sqlite_cursor` are SQLite's connections under SQLAlchemy. `compiled` caches
compiled statements; `lock_order` is the order in which all transactions lock rows. The statements
themselves are elsewhere.
"""
