"""The table of a run: medians, ratios, and the targets that were missed."""

import statistics
from collections.abc import Mapping, Sequence

from bench.origin.load import RequestKind

# Requests per CPU-second of each round, by server and kind.
Figures = Mapping[str, Mapping[str, Sequence[float]]]


def _ratio(figures: Figures, kind: str, other: str = "nginx") -> float | None:
    """Return Headend's median as a multiple of the other's, where both were measured."""
    if other not in figures:
        return None
    ours, theirs = (statistics.median(figures[name][kind]) for name in ("ours", other))
    return ours / theirs


def table(figures: Figures, kinds: Sequence[RequestKind]) -> str:
    """Return the figures as a table in Markdown."""
    with_asgi = "asgi" in figures
    lines = [
        "| requests per CPU-second | "
        + " | ".join(f"{name}: median (least to most)" for name in figures)
        + (" | ours / asgi" if with_asgi else "")
        + " | ours / nginx | target |",
        "|---|" + "---|" * (len(figures) + with_asgi + 2),
    ]
    for kind in kinds:
        cells = [
            f"{statistics.median(rounds):.0f} ({min(rounds):.0f} to {max(rounds):.0f})"
            for rounds in (figures[name][kind.name] for name in figures)
        ]
        if with_asgi:
            cells.append(f"{_ratio(figures, kind.name, 'asgi') or 0:.2f}")
        ratio = _ratio(figures, kind.name)
        cells.append("" if ratio is None else f"{ratio:.2f}")
        cells.append("" if kind.least is None else f">= {kind.least:.2f}")
        lines.append(f"| {kind.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def missed(figures: Figures, kinds: Sequence[RequestKind]) -> list[str]:
    """Return the targets that were missed, as sentences."""
    sentences: list[str] = []
    for kind in kinds:
        ratio = _ratio(figures, kind.name)
        if ratio is not None and kind.least is not None and ratio < kind.least:
            sentences.append(f"{kind.name}: {ratio:.2f} of nginx, less than {kind.least:.2f}")
    return sentences
