"""The live edge in Redis, from the process that makes streams to one that serves them."""
