"""A clock that a test moves."""


class ManualClock:
    """A clock in seconds that returns `now` until the test changes it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
