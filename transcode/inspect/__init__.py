"""Facts about an uploaded file, found in a sandboxed engine before it is transcoded.

`probe` describes a media file, `still` scales an uploaded image, and `concurrency` bounds how many
files are opened at once. The code that decodes them is in `transcode.engine`.
"""
