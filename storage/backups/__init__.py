"""Backups of an installation: the bytes of its media, and what names them at one moment.

`repository` is the place of all backups of an installation, a folder or a bucket, and its layout;
`lock` has one process at a time change it. `manifest` is the list of a backup's objects.
`media_pass` copies what the newest backup lacks, by `transfer`, which moves bytes between stores
and checks them. `retention` decides which backups are kept, and `pruning` removes the others.
`checking` reads all back, and `restoring` puts the objects of a backup into an empty store.
`contents` is what a manifest has, to compare with what a catalog names.

How the steps of a backup follow each other, and what of the data folder goes with it, is in
`headend.install.backup`.
"""
