"""The watch: two encoders of one programme are compared, and only figures leave the engine.

`session` carries out the orders; `sound_ring` keeps and decodes a source's newest sound;
`onsets` makes features of it; `correlation` finds where two rows of features agree, and whether
that can be believed. `quality` judges what they show: `faults` tells black, a frozen picture and
silence from those of the programme, by `pictures` (signatures), which `picture_source` decodes when
something is suspected, and by `sound_levels`. `picture_offset` finds where pictures agree, and
`picture_aligner` says when; in between, `offset_track` says how clocks drift. This engine alone
uses numpy.
"""
