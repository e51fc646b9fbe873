"""What making an uploaded file playable costs and how it looks (`python -m bench.vod`)."""
