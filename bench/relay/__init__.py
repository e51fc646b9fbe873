"""The cost of relaying encoders to the host that owns their streams: `python -m bench.relay`."""
