"""Connections to the database, its transactions and its errors.

`database` is the interface: reading, writing and migrating transactions on either database.
`postgres` and `sqlite` create the connections and translate errors; `connection` is what both are,
and `postgres_locks` what needs no driver. `sqlite_engine` gives SQLite
the interface of SQLAlchemy's asyncio extension; `sqlite_reader`, `sqlite_writer` and
`sqlite_threads` execute its statements. `compiled` caches compiled statements; `lock_order` is the
order in which all transactions lock rows, `clock` the database's own time. The statements
themselves are elsewhere.
"""
