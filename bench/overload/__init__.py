"""What each stream still delivers when a machine has more of them than it can make all rungs of."""
