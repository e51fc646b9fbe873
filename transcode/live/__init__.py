"""Live runs: packets of a published stream become an HLS publication, by way of an engine.

Read `service` first (all runs of a process), then `live_run` (one run and its engine) and
`backlog` (the queue between them, and what is dropped). `epochs` numbers the sources of a run;
`load_shedding` decides which rungs are made under overload, from `metrics` and `cpu_idle`;
`keyframe_monitor` decides when a source's own packets are used again; `posters` stores the streams'
posters. `ports` is what a run needs of its process. Which source is on air is decided in
`ingest.stream`; decoding and encoding are in `transcode.engine`.
"""
