"""The vocabulary of the service: the immutable values that cross between packages, and formats.

Pure: no clock, no socket, no file, no codec library. Every other package may import this one; it
imports none of them.

Read in this order: `ticks` (units of time), `track` and `packet` (what a source sends), `ladder`
(the renditions made of it), `stream_keys` (who publishes), `encoder_report` (what is measured of
an encoder), then `hls` and `codecs`. `networks` holds what limits count a client by; `countries`,
`languages` and `no_op` are small tables and stand-ins.
"""
