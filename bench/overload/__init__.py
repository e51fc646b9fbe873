"""What each stream delivers on a machine that cannot make all rungs of all streams."""
