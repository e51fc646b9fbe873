"""What each stream delivers on a machine that cannot encode all renditions of all streams."""
