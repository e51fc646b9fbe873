"""The cost of RTMP ingest: Headend's listener and other servers, measured in one run.

Each server runs as its own processes on loopback, takes the same live publishers in and does
nothing with them. See `docs/benches.md`; `python -m bench.ingest --help` lists the options.
"""
