"""Alerts for operators: who gets them by mail, what is to be told, and which mails are due.

`recipients` has the addresses and switches of projects and of the installation. What happens to a
stream or video is queued where it is announced (`storage.catalog.queries.alerts`); `conditions`
are what is wrong with a machine until it is not. `mailings` leases what is due to one process.
"""
