"""The cost and the quality of transcoding an uploaded file (`python -m bench.vod`)."""
