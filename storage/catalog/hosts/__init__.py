"""The processes that receive streams (`repository`), and which stream each of them owns (`owners`).

`capacity` decides which host is to own a new one. Used where several machines share a database of
PostgreSQL. One machine with SQLite has one such process, and no rows.
"""
