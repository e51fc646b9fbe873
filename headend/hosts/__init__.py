"""What several hosts of one catalog need: who lives, who owns which stream, what the dead left.

`presence` registers a process among the hosts, `ownership` claims streams for it, and
`stale_streams` takes off the air what a killed process left there.
"""
