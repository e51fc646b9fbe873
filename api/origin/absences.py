"""Which objects were missing a moment ago, so that made-up names do not cost a request each.

Pure. An absence is remembered for a second, and few unknown names of one stream or video are asked
for in a second. What a playlist names is asked for all the same: it may have been stored since.
"""

from collections import OrderedDict
from enum import Enum, auto
from typing import Final

# Longer than that, viewers would miss what was stored since.
_SECONDS: Final = 1.0
_MOST: Final = 10_000  # addresses of 60 bytes
# Names that are asked for in a second, and not found or not yet, of each stream or video. Players
# ask for what playlists name.
_MOST_ASKED: Final = 20
_MOST_RECORDS: Final = 1000


class Standing(Enum):
    """What is known of an object."""

    UNKNOWN = auto()  # ask the store
    ABSENT = auto()  # it was missing a moment ago
    CONFIRMED = auto()  # so it was, although a playlist named it
    CROWDED = auto()  # too many others are asked for


class Absences:
    """The absences that requests found; `now` is monotonic, in seconds."""

    def __init__(self) -> None:
        # When they end, and whether a playlist named the object.
        self._entries: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        # A second, and what was asked for in it; by the hash of a stream or video.
        self._asked: OrderedDict[str, tuple[int, set[str]]] = OrderedDict()

    def ask(self, hash_: str, address: str, now: float) -> Standing:
        """Return what is known of an object; if that is nothing, the caller is about to ask."""
        end, is_named = self._entries.get(address, (now, False))
        if end > now:
            return Standing.CONFIRMED if is_named else Standing.ABSENT
        nothing: set[str] = set()
        second, asked = self._asked.get(hash_, (int(now), nothing))
        if asked is nothing or second != int(now):
            self._asked.pop(hash_, None)
            asked = nothing
            self._asked[hash_] = (int(now), asked)
            if len(self._asked) > _MOST_RECORDS:
                self._asked.popitem(last=False)
        if address not in asked and len(asked) >= _MOST_ASKED:
            return Standing.CROWDED
        asked.add(address)
        return Standing.UNKNOWN

    def found(self, hash_: str, address: str) -> None:
        """Record that an object is there."""
        if hash_ in self._asked:
            self._asked[hash_][1].discard(address)

    def missed(self, address: str, now: float, *, is_named: bool = False) -> None:
        """Record that the store does not have an object; `is_named` by a playlist."""
        self._entries.pop(address, None)
        self._entries[address] = (now + _SECONDS, is_named)
        if len(self._entries) > _MOST:
            self._entries.popitem(last=False)
