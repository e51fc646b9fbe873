"""The cost of serving segments and playlists: Headend's origin next to nginx, same files."""
