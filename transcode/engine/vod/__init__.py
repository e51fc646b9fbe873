"""Files: survey, copy of the file's own media, and the spans of its renditions.

Read `asset` (the two orders), `survey` and `audio_survey` (what the file's packets say),
`span_planner` (pure: which spans are encoded apart), `remux` (what is used as it is) and `span`
(what is encoded). `live_fallback` makes files whose times are
unreliable with the live engine.
"""
