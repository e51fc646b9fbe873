"""The vocabulary: the frozen values that cross between rooms, and the formats they are written in.

Pure: no clock, no socket, no file, no codec library. Every other room may import this one; it
imports none of them.
"""
