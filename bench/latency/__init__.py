"""Glass-to-glass latency in a browser: `python -m bench.latency`.

`clock` codes the time of day in pictures, `encoder` publishes them, `viewer` plays them in Chromium
and reads the clock off every presented frame, `report` compares the figures.
"""
