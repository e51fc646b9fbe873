"""What an uploaded file is, found out in a sandboxed engine before anything is made of it.

`probe` describes a media file, `still` scales an uploaded image, and `concurrency` bounds how many
files are opened at once. The code that decodes them is in `transcode.engine`.
"""
