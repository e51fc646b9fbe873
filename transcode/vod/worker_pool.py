"""The workers of a process that transcode uploaded files."""

from collections.abc import Callable

from storage.job_leases import HeldJob, HeldSpan
from transcode.jobs.worker_pool import WorkerPool
from transcode.vod.job import VideoTranscoder


class TranscodeWorkers(WorkerPool[HeldJob | HeldSpan]):
    """Transcodes the videos of a catalog, at most `size` jobs and spans at once.

    Each holds a core of the transcoder's budget.
    """

    def __init__(
        self, transcoder: VideoTranscoder, *, size: int, new_owner: Callable[[], str]
    ) -> None:
        super().__init__(
            transcoder,
            size=size,
            new_owner=new_owner,
            place=transcoder.cores.one,
            health=transcoder.health,
        )
        transcoder.on_work_queued = self.nudge
