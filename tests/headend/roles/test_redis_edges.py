import pytest

from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.remote import RemoteEdge
from delivery.edge.shared import SharedEdge
from headend.roles.redis_edges import open_redis_edges

REDIS = "redis://127.0.0.1:1"  # nothing listens there: the edges open all the same


@pytest.mark.parametrize(
    ("publishes", "serves_others", "writer", "reader"),
    [
        (True, False, PublishingEdge, PublishingEdge),
        (False, True, MemoryEdge, RemoteEdge),
        (True, True, PublishingEdge, SharedEdge),
    ],
)
async def test_a_process_has_the_edges_of_what_it_makes_and_serves(
    publishes: bool, serves_others: bool, writer: type, reader: type
) -> None:
    async with open_redis_edges(
        REDIS, "headend", publishes=publishes, serves_others=serves_others
    ) as edges:
        assert (type(edges.writer), type(edges.reader)) == (writer, reader)
        assert (edges.publishing is not None) is publishes
        assert (edges.remote is not None) is serves_others
