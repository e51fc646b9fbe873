"""The formats of HLS as values and bytes: playlists, CMAF segments, WebVTT subtitles.

No files and no network: storage writes what is rendered here.

Read in this order: `playlist` (the values) and `m3u8` (their text), `timeline` (what a live
rendition lists) and `timeline_segments` (its segments), `segment` (what an engine makes) and `fmp4`
(its bytes), `webvtt` and `ssa` (subtitles).
"""
