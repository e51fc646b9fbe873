"""Alert rules and the dashboard: right by promtool, and of metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "monitoring"
_WORD: Final = re.compile(r"\b((?:headend|process|python)_[a-z_]+)\b")
_MISSING: Final = "promtool is missing: apt-get install prometheus"
# prometheus-client's own collectors (`ProcessCollector`), besides those that the page names.
_OF_PROCESS: Final = {"process_start_time_seconds", "process_max_fds"}


def promtool(*arguments: str, cwd: Path = FOLDER) -> None:
    program = shutil.which("promtool")
    assert program is not None, _MISSING
    done = subprocess.run(
        [program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((FOLDER / "headend.rules.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    dashboard = json.loads((FOLDER / "headend.dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def documented() -> set[str]:
    page = (ROOT / "docs" / "metrics.md").read_text()
    return set(_WORD.findall(page)) | _OF_PROCESS


def test_the_rules_are_right_and_say_what_they_should() -> None:
    promtool("check", "rules", "headend.rules.yml")
    promtool("test", "rules", "headend.rules.test.yml")


def test_the_queries_of_the_dashboard_are_right(tmp_path: Path) -> None:
    named = [
        {"record": f"query:{number}", "expr": re.sub(r"\$__rate_interval", "5m", query)}
        for number, query in enumerate(queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": named}]}))
    promtool("check", "rules", str(file))


@pytest.mark.parametrize("text", [*(rule["expr"] for rule in rules()), *queries()])
def test_each_metric_exists(text: str) -> None:
    used = set(_WORD.findall(text))
    assert used or text.startswith("up{")
    assert used <= documented()


def test_what_the_page_asks_to_watch_has_a_rule() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    _, _, watched = page.partition("### What to watch")
    names = set(_WORD.findall(watched.partition("### Refusals")[0]))
    assert len(names) >= 7
    assert names <= {name for rule in rules() for name in _WORD.findall(rule["expr"])}


def test_each_rule_has_words_and_a_severity() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}
