"""The smaller nouns: `labels` (tags and categories), `players`, `tokens` and their `sessions`.

Each of these holds a repository and the functions that streams, videos and uploads share with it.
`details` makes columns of what owners say of streams and videos. `label_removal` deletes labels and
players, under `label_locks`; `restrictions` reads which records can be played in some countries
only.
"""
