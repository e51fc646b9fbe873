"""Measures what an encoder sends, and derives what its owner should change.

Values only: no socket, no clock. The report's types are in `media.encoder_report`; sessions feed
the meter in `ingest.stream.slot_session`.

Read in this order: `meter` (one encoder), `packet_window` (its newest packets), `measures` (what
a window shows), `advice` (sentences for the owner).
"""
