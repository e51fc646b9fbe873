"""The cost of sending one event to many web-sockets: `python -m bench.fanout`."""
