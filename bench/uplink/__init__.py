"""How long a live encoder looks silent on networks that lose packets, over the kernel's own TCP.

`link` is the network: it delays and loses the packets of a network namespace. `__main__` sends a
stream through it and counts the gaps.
"""
