"""What a step of a live run costs by the length of its window: `python -m bench.window`."""
