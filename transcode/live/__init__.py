"""Live runs: packets of a published stream become an HLS publication, by way of an engine.

Read `service` first (all runs of a process), then `live_run` (one run and its engine) and `backlog`
(the queue between them, and what is dropped; `recent_packets` are kept beside it). `epochs` numbers
the sources of a run, `published_media` is how far its media were published, `resumption` where a
source goes on that continues a run of another process, and `event_queue` holds its events until
they are written. `spare_engines` wait for work, `engine_deaths` decides when the
next one starts, `room` how many more streams a machine can take; `load_shedding` decides which
rungs are made under overload, from `metrics` and `cpu_idle`; `keyframe_monitor` decides when a
source's own packets are used again; `posters` stores the streams' posters; `source_comparer` says
how far the encoders of a stream are apart, and which of them fails to show the programme. `ports`
is what a run needs of its process. Which source is on air is decided in `ingest.stream`; decoding
and encoding are in `transcode.engine`.
"""
