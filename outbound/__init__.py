"""Calls to servers that a user named: which ones may be called, and how.

Read `policy` (which addresses, and which hosts, without I/O), then `http_client` (a request of any
method over a connection to a checked address). Nothing here knows what is fetched or sent, or why.
"""
