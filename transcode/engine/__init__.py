"""The engine: the sandboxed child process that decodes, scales and encodes.

It is a filter without network, event loop or store: orders and media in, reports out. `main` is the
process; `core` holds threads, reports and the clock; `codec` the library's codecs and filters;
`input` reads sources and files; `output` cuts segments and encodes renditions; `live` and `vod` put
these together for live runs and for files; `watch` compares the encoders of a stream; `images`
makes posters, thumbnails and subtitles; `testsource` is the test encoder.
"""
