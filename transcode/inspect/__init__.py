"""Facts about an uploaded file, found in a sandboxed engine before it is transcoded.

`probe` describes a media file and bounds how many files are opened at once; `still` scales an
uploaded image. The code that decodes them is in `transcode.engine`.
"""
