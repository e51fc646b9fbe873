"""Stages: items in order, on a thread of their own or on the caller's."""

import threading

import pytest

from transcode.engine.core.stage import PipelineStage


class RecordingStage(PipelineStage[int]):
    def __init__(self, depth: int) -> None:
        self.handled: list[int] = []
        self.threads: set[int] = set()
        self.closed = False
        super().__init__("recorder", depth)

    def handle(self, item: int) -> None:
        self.handled.append(item)
        self.threads.add(threading.get_ident())

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("depth", [0, 1, 8])
def test_items_are_handled_in_order_before_finish_returns(depth: int) -> None:
    stage = RecordingStage(depth)
    for number in range(20):
        stage.put(number)
    assert not stage.closed
    stage.finish()
    assert stage.handled == list(range(20))
    assert stage.closed


@pytest.mark.parametrize(("depth", "own"), [(0, False), (4, True)])
def test_only_a_stage_with_a_queue_has_a_thread(depth: int, own: bool) -> None:
    stage = RecordingStage(depth)
    stage.put(1)
    stage.finish()
    assert (threading.get_ident() in stage.threads) is not own
