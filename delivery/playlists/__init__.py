"""The formats in which viewers get the timelines of runs as text.

`hls` is the one there is: playlists with low-latency tags or without. A format makes the text of a
segment once for all versions of a timeline that list it, by a `memo` keyed by the segment itself.
`delivery.edge.live_view` keeps what is rendered for viewers.
"""
