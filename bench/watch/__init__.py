"""What it costs to watch the encoders of one stream: `python -m bench.watch`.

`two_encoders` has what they send, `measure` feeds it to a watch engine and reads its cost.
"""
