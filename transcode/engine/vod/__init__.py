"""Files: survey, copy of the file's own media, and the spans of its renditions.

Read `asset` (the two orders), `survey` and `audio_survey` (facts from the file's packets),
`span_planner` (pure: which spans are encoded separately), `remux` (what is copied) and `span` (what
is encoded). `held_pictures` finds where a picture stands still, `cpu_bound` is the most that a file
may take. `live_fallback` encodes files whose times are unreliable with the live engine.
"""
