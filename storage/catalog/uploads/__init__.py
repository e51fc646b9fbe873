"""Uploads: `links` (upload links) and `repository` (resumable uploads).

The videos that they become are `storage.catalog.videos`.
"""
