"""What serving segments and playlists costs: Headend's origin beside nginx, on the same files."""
