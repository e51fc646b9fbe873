"""Media that outlives a process: whole objects by address, on one disk or in a bucket.

`base` is the protocol, `addresses` the layout, `store` what a role keeps its media in. `disk` is a
folder (`file_trees` walks over it, `disk_check` tries to write to it), and `reserve` its last
megabyte for a full disk; `s3_bucket` is a bucket, `s3` a bucket with the files of this machine that
go with it, and `file_cache` the copies among these. `disk_threads` are the threads that wait for
the disk, `durable` has files survive a power cut, and `at_once` does the same work for many
objects. `trash` keeps for some days what cleanups take away. `read_only` serves callers that must
not change anything. `incoming_file` receives a file in one go, `resumable_file` in several
requests, and `upload_pieces` in requests to several hosts. `cdn_copies` are what a CDN may read.
`copying` copies all objects of a folder to a bucket, or back. Which objects are still needed is
decided in `storage.cleanup`.
"""
