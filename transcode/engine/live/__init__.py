"""Live runs: one session, its epochs, their sources and the pipelines for video and audio.

Read `session` with `first_packets`, then `epoch` (which decides), `source` with `sound_anchor`,
`own_packets`, `video_pipeline` and `audio_pipeline` with `crossfade`. `slate` draws what is shown
off air, `live_posters` makes posters, and `shedding` determines which renditions can be left out.
"""
