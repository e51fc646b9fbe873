"""Videos, and the work that makes them playable.

`queries` reads them within a transaction, `creation` and `replacement` attach their files,
`repository` is what owners do with them, `rows` changes the row of one. `jobs` and `spans` are
leased to workers (`storage.catalog.jobs`), `transcoding` writes their progress; `imports` fetches
files, `recordings` turns runs into videos, `clips` parts of them, and `previews` adds previews.
`trashing` puts deleted ones into the trash, where `former_files` are, too; `past_files` count for
quotas.
"""
