"""The smaller nouns: `labels` (tags and categories), `players`, `tokens` and their `sessions`.

Each module holds a repository and the functions that streams, videos and uploads share with it.
"""
