"""The cost and quality of the ladder next to one ffmpeg command (`python -m bench.ladder`)."""
