"""The vocabulary of the service: the immutable values that cross between packages, and formats.

Pure: no clock, no socket, no file, no codec library. Every other package may import this one; it
imports none of them.

Read in this order: `ticks` (units of time), `track` and `packet` (what a source sends),
`sample_times`, `ladder` (the renditions made of it), `stream_keys` (the keys of publishers),
`encoder_report` (measurements of an encoder), `alerts` (what operators are told by mail),
`stream_events` (what happens to a stream on air), `preroll` (how much of a source may lead up to
what is shown), `run_policy` (what is set for its runs), `source_comparison` (how far two encoders
are apart), `source_fault` (what one of them fails to show), `source_mark` (by what another process
knows their clocks again), `setting` (what describes a setting), then `hls` and `codecs`. `networks`
derives the network by which limits count a client, `fair_share` divides places among clients,
`loop_lag` measures how long an event loop was held up; `countries` and `languages` are tables,
`accents` takes the accents off a text, `no_op` has callbacks that do nothing.
"""
