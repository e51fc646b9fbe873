"""Uploads: `links` (upload links), `creation` and `repository` (resumable uploads).

The videos that they become are `storage.catalog.videos`.
"""
