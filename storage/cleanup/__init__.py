"""Removal of what is no longer needed.

`removals` are objects whose removal a transaction recorded, `orphans` those without a row,
`expired_media` recordings whose time is over, `expired_records` what was deleted or replaced and
cannot be restored any more, `expired_uploads` what is in its name, and `withdrawn_copies` those for
a CDN of what not everyone may see any more. `cleanups` lists what goes to the trash; `periodic`
repeats it, each time by a `cleanup_pass`. `missing` is the other way round: what rows name and the
store does not have.

What no row references, and what has expired, goes to the trash (`storage.objects.trash`), since a
database from a backup does not know what is newer, and a clock may be wrong; the age of an object
goes by the `store_clock`. Where unusually much would go, an operator must confirm it
(`confirmation`). `old_trash` deletes it some days later.
"""
