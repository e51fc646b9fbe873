"""The edges of a process that shares streams with others over Redis."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import EdgeUnavailable, open_edge_store
from delivery.edge.remote import open_remote_edge
from delivery.edge.shared import Edges, SharedEdge
from headend.supervision import BackgroundTask, run_in_background


@asynccontextmanager
async def open_redis_edges(
    url: str, namespace: str, *, publishes: bool, serves_others: bool
) -> AsyncGenerator[Edges, None]:
    """Open the edges of a process that publishes streams, or serves those of others, or both."""
    async with AsyncExitStack() as stack:
        opened = open_edge_store(url, namespace=namespace)
        store = await stack.enter_async_context(opened)
        remote = None
        if serves_others:
            remote = await stack.enter_async_context(open_remote_edge(store))
            if not publishes:
                yield Edges(writer=MemoryEdge(), reader=remote, remote=remote)
                return
        publishing = PublishingEdge(store)
        edges = Edges(
            writer=publishing,
            reader=publishing if remote is None else SharedEdge(publishing, remote),
            publishing=publishing,
            remote=remote,
        )
        async with run_in_background(BackgroundTask("edge in Redis", publishing.run)):
            yield edges
        with suppress(EdgeUnavailable):
            await publishing.publish()  # the ends of runs
