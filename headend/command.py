"""The command `headend` as it is installed: loads `headend.cli` and calls it."""

import gc
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command that the arguments name; it exits the process.

    What is loaded here stays until the process ends. The garbage collector would scan all of it
    again and again meanwhile, which took a quarter of a start, and once more at the end.
    """
    gc.disable()
    cli = import_module("headend.cli")
    gc.freeze()
    gc.enable()
    cli.main()
