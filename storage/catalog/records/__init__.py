"""The values that the catalog returns and takes: frozen, without any database type.

`common` and `details` first; then `settings`, `videos`, `uploads`, `transcoding` and `alerts`.
"""
