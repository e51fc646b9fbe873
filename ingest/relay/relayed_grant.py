"""A grant as hosts relay it: also those of version 0.2, which know four settings of a run."""

from typing import Self

import msgspec

from ingest.stream.ports import Grant
from media.run_policy import resolve


class RelayedGrant(Grant, frozen=True, kw_only=True):
    """A grant with what version 0.2 reads, and sends alone: it sends no `run`, and ignores it."""

    record: bool = False
    keep_days: int = 30
    low_latency: bool = True
    dvr_seconds: float = 0.0

    @classmethod
    def of(cls, grant: Grant) -> Self:
        """Return a grant as it is sent."""
        run = grant.run
        return cls(
            **msgspec.structs.asdict(grant),
            record=run.recording.enabled,
            keep_days=run.recording.keep_days,
            low_latency=run.is_low_latency,
            dvr_seconds=run.dvr_seconds,
        )

    def received(self) -> Grant:
        """Return the grant that was sent; a setting that its sender does not know has its default.

        What version 0.2 sends is the same in `run` where that was sent.
        """
        run = resolve(self.run)
        failover = msgspec.structs.replace(
            run.failover,
            mode=self.policy.mode.value,
            return_seconds=self.policy.return_seconds,
            reconnect_seconds=self.reconnect_seconds,
            goodbye_seconds=self.goodbye_seconds,
        )
        recording = msgspec.structs.replace(
            run.recording, enabled=self.record, keep_days=self.keep_days
        )
        values = {field: getattr(self, field) for field in Grant.__struct_fields__}
        values["run"] = msgspec.structs.replace(
            run,
            failover=failover,
            recording=recording,
            latency="low" if self.low_latency else "normal",
            dvr_seconds=self.dvr_seconds,
        )
        return Grant(**values)
