"""More than ten, and more than a tenth of all, is not removed without an operator."""

import pytest

from storage.catalog.queries.due import Due
from storage.cleanup.confirmation import TooMuchDue, require_usual


@pytest.mark.parametrize(
    ("count", "total", "stops"),
    [(0, 0, False), (10, 10, False), (11, 11, True), (11, 110, False), (11, 109, True)],
)
def test_only_more_than_ten_and_more_than_a_tenth_stops(
    count: int, total: int, stops: bool
) -> None:
    due = Due(count, total)
    if stops:
        with pytest.raises(TooMuchDue, match=f"the time of {count} of {total} films is over: "):
            require_usual("films", due, confirmed=False)
    else:
        require_usual("films", due, confirmed=False)
    require_usual("films", due, confirmed=True)
