"""Tables of what was measured, and whether the targets are met."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.hosts.owner import OwnerCost
from bench.hosts.serving import ServedLoad
from bench.hosts.transcoding import QueueFigures

MOST_COST: Final = 1.15  # of the owner's CPU on SQLite, a folder and memory
LEAST_SPEED_UP: Final = 1.8


def show_machine(seconds: Mapping[str, Sequence[float]]) -> None:
    """Print how long one core took for some work, two for twice as much, and what that gains."""
    print("| the machine itself | s on one core | s on two at once | speed-up |\n|---|---|---|---|")
    for name, (one, two) in seconds.items():
        print(f"| {name} | {one:.1f} | {two:.1f} | {2 * one / two:.2f} |")
    print()


def show_owners(costs: Mapping[str, Sequence[OwnerCost]]) -> bool:
    """Print the owner's costs in both places; return whether the target is met."""
    print(
        "| the owner's CPU, ms each second of the stream | whole: median (least to most)"
        " | without its engine |\n|---|---|---|"
    )
    for name, owner_costs in costs.items():
        whole, process = _figures(owner_costs, _whole), _figures(owner_costs, _process)
        print(f"| {name} | {whole} | {process} |")
    local, shared = costs.values()
    ratio = _median(shared, _whole) / _median(local, _whole)
    without = _median(shared, _process) / _median(local, _process)
    print(f"| ratio | {ratio:.2f} (target: <= {MOST_COST:g}) | {without:.2f} |\n")
    if any(each.shed for owner_costs in costs.values() for each in owner_costs):
        print("Renditions were shed: the machine is too busy, and the ratio means nothing.\n")
        return False
    return ratio <= MOST_COST


def _whole(cost: OwnerCost) -> float:
    return cost.whole


def _process(cost: OwnerCost) -> float:
    return cost.process


def _median(costs: Sequence[OwnerCost], figure: Callable[[OwnerCost], float]) -> float:
    return statistics.median(map(figure, costs))


def _figures(costs: Sequence[OwnerCost], figure: Callable[[OwnerCost], float]) -> str:
    values = [figure(cost) for cost in costs]
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def show_queues(queues: Sequence[QueueFigures], *, films: int, seconds: int) -> bool:
    """Print how one host and two worked a queue off; return whether the target is met."""
    print(
        f"| transcoding hosts, {films} films of {seconds} s | s until all are complete"
        " | of its core, each | CPU s: hosts, their servers, strangers |\n|---|---|---|---|"
    )
    for queue in queues:
        print(
            f"| {queue.count} | {queue.lasted:.1f} | {queue.share:.2f} | {queue.cpu.hosts:.1f},"
            f" {queue.cpu.servers:.1f}, {queue.cpu.strangers:.1f} |"
        )
    one, two = queues
    ratio = one.lasted / two.lasted
    print(f"| speed-up | {ratio:.2f} (target: >= {LEAST_SPEED_UP:g}) | | |\n")
    return ratio >= LEAST_SPEED_UP


def show_loads(loads: Mapping[str, Sequence[ServedLoad]]) -> bool:
    """Print what one API host and two answered; return whether the target is met."""
    print(
        "| requests | hosts | a second | speed-up | µs of a host's CPU each"
        " | cores: hosts, their servers and clients, strangers |\n|---|---|---|---|---|---|"
    )
    met = True
    for name, (one, two) in loads.items():
        ratio = two.rate / one.rate
        met = met and ratio >= LEAST_SPEED_UP
        for load, speed_up in ((one, ""), (two, f"{ratio:.2f}")):
            spent = load.cpu.hosts, load.cpu.servers, load.cpu.strangers
            cores = ", ".join(f"{seconds / load.seconds:.2f}" for seconds in spent)
            print(
                f"| {name} | {load.count} | {load.rate:.0f} | {speed_up} | {load.each:.0f}"
                f" | {cores} |"
            )
    return met
