"""Reading sources: an uploaded file's container, packets, decoders and facts; access points.

`container` opens a file with care, `demux` yields its packets, `file_decoder` decodes them, and
`probe` reports what the file is. `random_access` serves live sources too.
"""
