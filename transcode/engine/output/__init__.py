"""From decoded frames to segments, for live runs and files alike.

`segment_grid` decides where segments begin, `decoded_frames` which frames are encoded,
`rendition_encoder` encodes them on its threads, `part_lengths` decides where live parts end, and
`segmenter` sends parts and segments. Where the frames come from is known in `transcode.engine.live`
and `transcode.engine.vod`.
"""
