"""Videos, and the work that makes them playable.

`queries` reads them within a transaction, `creation` and `replacement` attach their files,
`repository` is what owners do with them. `jobs` and `spans` are leased to workers, `transcoding`
writes their progress; `imports` fetches files, `recordings` turns runs into videos, and `previews`
adds their previews.
"""
