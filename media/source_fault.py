"""What one source shows that may be a fault: black, a frozen picture, silence."""

from typing import Literal

import msgspec

FaultKind = Literal["black", "frozen", "silent"]
# "fault": another source shows something else at the same moment of the programme, and both showed
# the same before. "both": each other one shows the same. "unknown": that cannot be told.
Verdict = Literal["fault", "both", "unknown"]


class SourceFault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be a fault, and has lasted for `seconds` of the source's media.

    `confidence` is from 0 to 1; it is 0 for what is not known to be a fault.
    """

    kind: FaultKind
    verdict: Verdict
    seconds: float
    confidence: float = 0.0
