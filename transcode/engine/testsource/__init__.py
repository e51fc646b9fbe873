"""The test encoder: `testcard` draws a picture and a tone, `pattern` publishes them over RTMP.

It is used by the demo and by tests; no engine imports it.
"""
