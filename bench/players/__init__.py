"""What usual players make of our playlists: `python -m bench.players`.

`pages` plays in Chromium, `programs` names the programs of the desktop, whose pictures `screen`
reads off a virtual display. All are watched by the clock in the picture (`bench.latency.clock`).
"""
