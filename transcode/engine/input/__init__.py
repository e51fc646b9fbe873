"""Reading sources: an uploaded file's container, packets, decoders and facts; access points.

`container` opens a file with care, `demux` yields its packets, `file_decoder` decodes them, and
`probe` reports what the file is, by its first `whole_picture` among other things. `random_access`
serves live sources too.

Files as people have them: `appended_movies` and `joined_clock` (several in one), `edited_parts`
(edit lists), `stray_times` and `sound_pace` (times that are wrong), `stereo_pair` (two tracks that
are one sound).
"""
