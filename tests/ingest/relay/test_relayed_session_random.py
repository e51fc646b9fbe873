"""Hosts that fail at random: each encoder is served by its stream's owner, or is disconnected.

Each run is generated from a seed, which a failure names.
"""

import asyncio
import contextlib
import random
from typing import Any

import pytest

from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import PortError
from ingest.stream.registry import NotRelayed
from media.stream_keys import Slot
from tests.support.ingest.relay_hosts import Encoder, RelayHost, RelayHosts, installation
from tests.support.ingest.virtual_clock import play_fast

EVENTS = 25
SLOTS = [Slot(number) for number in range(4)]


class RandomInstallation:
    """An installation with random failures."""

    def __init__(self, hosts: RelayHosts, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hosts = hosts
        self.alive: list[RelayHost] = []
        self.encoders: list[tuple[RelayHost, Encoder]] = []
        self._later: list[tuple[float, RelayHost]] = []  # when the table knows that a host is dead

    async def step(self) -> None:
        """Cause one random event, and let some time pass."""
        events = (self.publish, self.publish, self.leave, self.kill, self.start, self.stop)
        more = (self.cut, self.break_links, self.steal, self.close_table, self.open_table)
        await self.chance.choice(events + more)()
        await self.rest(self.chance.choice((0.0, 0.1, 0.7, 2.0, 6.0)))

    async def rest(self, seconds: float) -> None:
        """Let time pass, in which hosts learn which streams they have lost."""
        now = asyncio.get_running_loop().time
        until = now() + seconds
        while True:
            for at, host in self._later:
                if now() >= at:
                    self.hosts.table.dead.add(host.address)
            for host in self.alive:
                for stream, generation in host.streams.generations.items():
                    if self.hosts.table.owners[stream] != (host.address, generation):
                        await host.streams.surrender(stream, generation)
            if now() >= until:
                return
            await asyncio.sleep(0.25)

    async def start(self) -> None:
        if len(self.alive) < 4:
            self.alive.append(await self.hosts.start(cable=self.chance.random() < 0.5))

    async def publish(self) -> None:
        used = {encoder.slot for _, encoder in self.connected()}
        free = [slot for slot in SLOTS if slot not in used]
        if free and self.alive:
            host, slot = self.chance.choice(self.alive), self.chance.choice(free)
            with contextlib.suppress(SlotOccupied, NotRelayed, PortError):
                self.encoders.append((host, await host.publish(slot)))

    async def leave(self) -> None:
        if self.connected():
            _, encoder = self.chance.choice(self.connected())
            encoder.stalled = True
            encoder.leave(goodbye=self.chance.random() < 0.5)
            encoder.disconnected = "it left"

    async def kill(self) -> None:
        if len(self.alive) > 1:
            host = self.alive.pop(self.chance.randrange(len(self.alive)))
            host.kill()
            self._later.append((asyncio.get_running_loop().time() + 3, host))

    async def cut(self) -> None:
        """Cut a host off from the others and from the table."""
        reachable = [host for host in self.alive if host.cable is not None]
        if reachable and len(self.alive) > 1:
            host = self.chance.choice(reachable)
            assert host.cable is not None
            host.cable.cut()
            host.stop_encoders()  # the host's own sending does not pass through its cable
            host.client.close()
            host.cut_off()
            self.alive.remove(host)
            self._later.append((asyncio.get_running_loop().time() + 3, host))

    async def stop(self) -> None:
        """Stop a host as a service does."""
        if len(self.alive) > 1:
            host = self.alive.pop(self.chance.randrange(len(self.alive)))
            host.streams.drain()
            for encoder in host.encoders:
                encoder.disconnect("the service is stopping")
            await host.streams.wait_closed()
            host.kill()
            self.hosts.table.dead.add(host.address)

    async def break_links(self) -> None:
        if self.alive:
            for link in self.chance.choice(self.alive).links:
                link.drop("a cable was pulled out")

    async def steal(self) -> None:
        """Give a stream to another host, as a partition may."""
        if self.alive and not self.hosts.table.down:
            _, generation = self.hosts.table.owners.get(1, (None, 0))
            thief = self.chance.choice(self.alive)
            if 1 not in thief.streams.generations:
                self.hosts.table.owners[1] = (thief.address, generation + 1)

    async def close_table(self) -> None:
        self.hosts.table.down = True

    async def open_table(self) -> None:
        self.hosts.table.down = False

    def connected(self) -> list[tuple[RelayHost, Encoder]]:
        """The encoders that are connected, each with its host."""
        return [
            (host, encoder)
            for host, encoder in self.encoders
            if host in self.alive and encoder.disconnected is None
        ]

    def check(self) -> None:
        """Check that every connected encoder sends to the owner of its stream."""
        slots = sorted(encoder.slot for _, encoder in self.connected())
        owners = [host for host in self.alive if host.streams.generations]
        assert len(owners) <= 1
        if not slots:
            return
        (owner,) = owners
        assert self.hosts.table.owners[1] == (owner.address, owner.streams.generations[1])
        state = owner.ports.states[-1]
        assert sorted(state.sending) == slots
        assert state.on_air in slots
        newest = [line for line in owner.ports.sinks[-1].recorded if line.startswith("offer")][-1]
        assert int(newest.split()[1]) / 1000 > asyncio.get_running_loop().time() - 0.5
        relaying = {host.address for host, _ in self.connected()} - {owner.address}
        assert len(owner.relay.links) == len(relaying)


def survive(seed: int) -> None:
    errors: list[dict[str, Any]] = []  # asyncio's context is untyped

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(about))
        async with installation() as hosts:
            simulation = RandomInstallation(hosts, seed)
            for _ in range(3):
                await simulation.start()
            for _ in range(EVENTS):
                await simulation.step()
            hosts.table.down = False
            await simulation.start()
            await simulation.publish()
            await simulation.rest(30)
            simulation.check()

    play_fast(scenario())
    assert errors == []


@pytest.mark.parametrize("seed", range(2))
def test_encoders_are_served_or_disconnected_while_hosts_fail_at_random(seed: int) -> None:
    survive(seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(2, 102))
def test_encoders_are_served_or_disconnected_in_many_random_runs(seed: int) -> None:
    survive(seed)
