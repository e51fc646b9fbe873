"""Posters, thumbnails, cover art and subtitles of files, and pictures that owners upload.

`poster` chooses among the frames of `keyframe_sampler` by `image_score`; `preview_sheets`,
`cover_art`, `still` and `subtitles` are independent of each other. `recording_previews` makes the
previews of a recording, whose keyframes the parent finds.
"""
