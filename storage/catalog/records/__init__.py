"""The values that the catalog returns and takes: frozen, without any database type.

`common` first; then `settings`, `videos`, `uploads` and `transcoding`.
"""
