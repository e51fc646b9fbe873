"""What several hosts cost, and how much more they do than one: `python -m bench.hosts`."""
