"""Prints coverage.py's results as a table: lines and branches of each package.

The arguments are reports of `coverage json`, one per set of tests.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path


def read(report: Path) -> dict[str, Counter[str]]:
    """Return the sums of a report by package (the folder of each file)."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for file, facts in json.loads(report.read_text())["files"].items():
        summary = facts["summary"]
        sums[str(Path(file).parent)].update(
            {
                key: summary[key]
                for key in (
                    "covered_lines",
                    "num_statements",
                    "covered_branches",
                    "num_branches",
                )
            }
        )
    return sums


def percent(part: int, whole: int) -> str:
    """Return a percentage, or a dash if `whole` is 0."""
    return f"{100 * part / whole:5.1f} %" if whole else "      -"


def main(reports: list[str]) -> None:
    """Print a line for each package, and one with the total of each report."""
    sys.stdout.write(f"{'package':36} {'lines':>7} {'reached':>8} {'branches':>9} {'reached':>8}\n")
    for name in reports:
        sums = read(Path(name))
        whole: Counter[str] = Counter()
        for package, each in sorted(sums.items()):
            whole.update(each)
            line(package, each)
        if len(sums) > 1:
            line(f"({Path(name).stem} in all)", whole)


def line(title: str, sums: Counter[str]) -> None:
    """Print one line of the table."""
    lines = percent(sums["covered_lines"], sums["num_statements"])
    branches = percent(sums["covered_branches"], sums["num_branches"])
    counts = f"{sums['num_statements']:7} {lines:>8} {sums['num_branches']:9} {branches:>8}"
    sys.stdout.write(f"{title:36} {counts}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
