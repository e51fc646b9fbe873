"""The smaller nouns of a project: `labels` (tags and categories), `players` and `tokens`.

Each module holds a repository and the functions that streams, videos and uploads share with it.
"""
