"""The operations on videos, except those that receive files (`api.uploads`).

Controllers: `collection` (the videos of a project) and `item` (one video). `lookup` finds the video
of a path, `list_query` reads the query of a list, `schemas` holds the bodies and `presenter` fills
them. Read them in this order.
"""
