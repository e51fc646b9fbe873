"""Tables of what was measured, and whether the targets are met."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.hosts.owner import OwnerCost
from bench.hosts.serving import ServedLoad
from bench.hosts.transcoding import QueueFigures

__all__ = [
    "LEAST_SPEED_UP",
    "MOST_COST",
    "show_loads",
    "show_machine",
    "show_owners",
    "show_queues",
]

MOST_COST: Final = 1.15  # of the owner's CPU on SQLite, a folder and memory
LEAST_SPEED_UP: Final = 1.8


def show_machine(took: Mapping[str, Sequence[float]]) -> None:
    """Print how long one core took for some work, two for twice as much, and what that gains."""
    print("| the machine itself | s on one core | s on two at once | speed-up |\n|---|---|---|---|")
    for name, (one, two) in took.items():
        print(f"| {name} | {one:.1f} | {two:.1f} | {2 * one / two:.2f} |")
    print()


def show_owners(costs: Mapping[str, Sequence[OwnerCost]]) -> bool:
    """Print the owner's costs in both places; return whether the target is met."""
    print(
        "| the owner's CPU, ms each second of the stream | whole: median (least to most)"
        " | without its engine |\n|---|---|---|"
    )
    for name, found in costs.items():
        whole, process = _figures(found, _whole), _figures(found, _process)
        print(f"| {name} | {whole} | {process} |")
    own, shared = costs.values()
    ratio = _median(shared, _whole) / _median(own, _whole)
    without = _median(shared, _process) / _median(own, _process)
    print(f"| ratio | {ratio:.2f} (target: <= {MOST_COST:g}) | {without:.2f} |\n")
    if any(each.shed for found in costs.values() for each in found):
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
    each = [figure(cost) for cost in costs]
    return f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"


def show_queues(found: Sequence[QueueFigures], *, films: int, seconds: int) -> bool:
    """Print how one host and two worked a queue off; return whether the target is met."""
    print(
        f"| transcoding hosts, {films} films of {seconds} s | s until all are complete"
        " | of its core, each | CPU s: hosts, their servers, strangers |\n|---|---|---|---|"
    )
    for each in found:
        print(
            f"| {each.count} | {each.lasted:.1f} | {each.share:.2f} | {each.cpu.hosts:.1f},"
            f" {each.cpu.servers:.1f}, {each.cpu.strangers:.1f} |"
        )
    one, two = found
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
        for each, told in ((one, ""), (two, f"{ratio:.2f}")):
            spent = each.cpu.hosts, each.cpu.servers, each.cpu.strangers
            cores = ", ".join(f"{seconds / each.seconds:.2f}" for seconds in spent)
            print(
                f"| {name} | {each.count} | {each.rate:.0f} | {told} | {each.each:.0f} | {cores} |"
            )
    return met
