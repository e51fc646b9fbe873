"""The installation as its operator sees it: hosts, machine, queue, disk, recent errors, doctor.

`report` holds the values and the protocol of what collects them, `endpoints` the operations on
them. They need a token for all projects.
"""
