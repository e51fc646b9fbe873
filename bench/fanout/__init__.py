"""What it costs to tell one event to many web-sockets: `python -m bench.fanout`."""
