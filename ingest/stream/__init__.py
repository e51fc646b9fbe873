"""One stream from its encoders to its run: admission, what viewers get, what is recorded.

`ports` names what this package needs of the rest of the service; the service binds it at start-up.
The RTMP protocol is in `ingest.rtmp`, the sockets are in `ingest.server`.

Read in this order: `ports`, `one_host` (the port of a host that owns all streams), `registry` (all
streams), `live_stream` (the owner of one), `report` (what the encoders of one send), `slot_session`
(one encoder in one slot) with its parts `track_finder`, `gop_buffer` and `arrival_clock`,
`encoder_watch` with `alignment` (how far encoders are apart, and what they show), then `failover`
(the decision), `switcher` (its execution) with `succession` (where the next one goes on), `airing`
and `shown_pictures` (what viewers got of the one on air), `session_marks` (by what another host
knows the encoders again), `drill` (a switch on trial), `run_feed`
(the way into the run), `packet_observers` (who else gets packets) and `journal_queue` (states and
events on their way to the catalog).
"""
