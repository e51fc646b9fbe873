"""The public pages and documents about streams and videos.

`watch_pages` are the pages that play, `json_documents` what players read, `oembed` what other sites
read to embed a page, `slate_images` the pictures shown while a stream is off air. The media come
from `api.origin`, the script and the style from `web/`.
"""
