"""What the ladder costs and how it looks, beside one ffmpeg command (`python -m bench.ladder`)."""
