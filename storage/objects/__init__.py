"""Media that outlives a process: whole objects by address, on one disk.

`base` is the protocol, `addresses` the layout, `disk` the store and `reserve` its last megabyte for
a full disk. `disk_threads` are the threads that wait for the disk. `trash` keeps for some days what
cleanups take away. `read_only` serves callers that must not change anything. `incoming_file`
receives a file in one go, `resumable_file` in several requests. Which objects are still needed is
decided in `storage.cleanup`.
"""
