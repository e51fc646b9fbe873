"""The project's rules that no linter checks: sizes, mirrored tests, words, pins, links.

import-linter checks the imports (`pyproject.toml`), ruff the style.
"""

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.house_tables import WITHOUT_TEST
from tests.support.rooms import PROJECT, ROOMS, ROOT

LINES: Final = 600
# Exceptions: {"room/module.py": "why it is one thing"}.
LONGER: Final[dict[str, str]] = {}
# Tests that belong to no single module: {"tests/room/test_x.py": "their subject"}.
OF_NO_MODULE: Final[dict[str, str]] = {
    "tests/web/test_bundle.py": "the built files in api/static against a fresh build of web/",
    "tests/api/test_contract.py": "the interface, form by form, over the whole application",
    "tests/api/test_contract_lists.py": "the lists of the interface, page by page",
    "tests/api/test_contract_refusals.py": "what every operation refuses, and in which words",
}

# Fetched or built files, which the rules do not cover.
FOREIGN: Final = {"node_modules", "__pycache__", "data", "dist", "static"}
PLACES: Final = {".ci", ".dockerignore", ".gitignore"}  # dotfiles that belong to the project

# Written so that it does not match this file.
WORDS_OF_A_WORKPLACE: Final = re.compile(
    r"(?<![\w.])/wo[r]k/\w|(?<![\w.])/ro[o]t/|(?<![\w.])/ho[m]e/\w|(?<![\w.])/Us[e]rs/\w"
    r"|/op[t]/pypi|/tmp/[b]rief|house-st[y]le\.md|no[t]es/\w+\.md"
    r"|pypi\.or[g]|python[h]osted\.org|registry\.np[m]js|registry\.yarn[p]kg|(?:deb|ftp)\.de[b]ian"
    r"|\bpart [1-9] o[f] [1-9]\b|\bissu[e] #?\d",
    re.IGNORECASE,
)


def files() -> Iterator[Path]:
    """Yield the project's files, without git, which an archive does not have."""
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.name in FOREIGN or (path.name.startswith(".") and path.name not in PLACES):
                continue
            if path.is_dir():
                folders.append(path)
            else:
                yield path


FILES: Final = list(files())
SOURCES: Final = [
    path for path in FILES if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ROOMS
]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text(path: Path) -> str:
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode()


def declared() -> set[str]:
    """Return all packages that the project declares as dependencies."""
    groups = [line for group in PROJECT["dependency-groups"].values() for line in group]
    lines = [*PROJECT["project"]["dependencies"], *(each for each in groups if str(each) == each)]
    for peers in ("pyrtmp", "players"):
        lines += pins(ROOT / "bench" / peers / "requirements.in")
    javascript: set[str] = set()
    for folder in ("web", "bench/nms", "bench/players", "tests/e2e/node"):
        package = json.loads((ROOT / folder / "package.json").read_text())
        javascript |= {*package.get("dependencies", ()), *package.get("devDependencies", ())}
    return {Requirement(line).name for line in lines} | javascript


def pins(path: Path) -> list[str]:
    """Return the requirements in a file, without comments, hashes and line ends."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    return [
        re.sub(r"\s+--hash=\S+", "", line).strip()
        for line in lines
        if line.strip() and not line.lstrip().startswith("#")
    ]


def test_the_files_of_the_project_are_found() -> None:
    assert {"Makefile", ".ci/run", "tests/test_house.py"} <= {name(path) for path in FILES}
    assert not any(".venv" in path.parts for path in FILES)


def test_one_list_of_rooms_names_every_folder_of_source() -> None:
    """A room that is not listed would lose its tests, its rules, or its place in the wheel."""
    folders = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    assert folders - {"tests", "bench", "scripts"} == {*ROOMS}
    linter = PROJECT["tool"]["importlinter"]
    circles = next(each for each in linter["contracts"] if each["type"] == "acyclic_siblings")
    assert (*linter["root_packages"],) == (*circles["ancestors"],) == ROOMS
    assert all((ROOT / "tests" / room).is_dir() for room in ROOMS)


def test_a_file_of_source_has_at_most_600_lines() -> None:
    source = {".py", ".ts", ".css", ".mjs", ".sh", ".html", ".md"}
    long = {
        name(path): count
        for path in FILES
        if path.suffix in source and (count := len(text(path).splitlines())) > LINES
    }
    assert {file: count for file, count in long.items() if file not in LONGER} == {}
    assert set(LONGER) <= set(long), "no longer long: take it out of LONGER"


def test_nothing_is_raised_within_an_except_star() -> None:
    """In Python 3.11.2 (Debian 12) it leaves as a group, which handlers of its type miss."""
    places = [
        f"{name(path)}:{inner.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(text(path)))
        if isinstance(node, ast.TryStar)
        for handler in node.handlers
        for inner in ast.walk(handler)
        if isinstance(inner, ast.Raise | ast.Await | ast.Call)
    ]
    assert places == []


def unnamed(package: Path) -> list[str]:
    """Return the modules and packages in a package that its docstring does not name."""
    face = ast.get_docstring(ast.parse(text(package))) or ""
    modules = [each.stem for each in package.parent.glob("[!_]*.py")]
    packages = [each.parent.name for each in package.parent.glob("*/__init__.py")]
    return sorted(each for each in modules + packages if not re.search(rf"`{each}\b", face))


def test_every_package_names_what_it_contains() -> None:
    """Its docstring is where a stranger begins to read."""
    silent = {
        name(path): missing
        for path in SOURCES
        if path.name == "__init__.py"
        and path.parent.name != "versions"  # its modules are numbered steps
        and (missing := unnamed(path))
    }
    assert silent == {}


def test_a_module_that_its_package_does_not_name_is_noticed(tmp_path: Path) -> None:
    for file in ("__init__.py", "__main__.py", "named.py", "omitted.py", "inner/__init__.py"):
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text('"""Only `named.Thing`, and words such as omitted."""\n')
    assert unnamed(tmp_path / "__init__.py") == ["inner", "omitted"]


def mirrored(test: Path, root: Path = ROOT) -> bool:
    """Return whether a test is in its subject's folder, and begins with the subject's name.

    The subject is a module, any other file, or the folder itself.
    """
    folder = root / test.parent.relative_to(root / "tests")
    around = [*folder.glob("*"), *folder.glob("src/*")]
    names = {path.name for path in around} | {path.stem for path in around}
    subjects = {re.sub(r"\W", "_", each) for each in {*names, folder.name} if around}
    title = test.stem.removeprefix("test_")
    return any(title == subject or title.startswith(f"{subject}_") for subject in subjects)


def test_tests_mirror_the_tree() -> None:
    tests = [path for path in FILES if path.name.startswith("test_") and path.suffix == ".py"]
    astray = {
        name(path)
        for path in tests
        if path != Path(__file__) and not mirrored(path) and "e2e" not in path.parts
    }
    assert astray - set(OF_NO_MODULE) == set()
    assert set(OF_NO_MODULE) <= astray, "mirrors a module now: take it out of OF_NO_MODULE"


def test_a_test_that_strayed_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "live.py").touch()
    assert mirrored(tmp_path / "tests" / "ingest" / "test_live_takeover.py", tmp_path)
    assert not mirrored(tmp_path / "tests" / "ingest" / "test_livelihood.py", tmp_path)
    assert not mirrored(tmp_path / "tests" / "media" / "test_live.py", tmp_path)


def own_tests(module: Path, root: Path = ROOT) -> list[Path]:
    """Return the test files of one module: `test_<module>.py` and `test_<module>_<subject>.py`.

    A file belongs to the module with the longest matching name.
    """
    folder = root / "tests" / module.parent.relative_to(root)
    title = f"test_{module.stem.strip('_')}"
    others = [f"test_{each.stem}" for each in module.parent.glob(f"{module.stem.strip('_')}_*.py")]
    return [
        path
        for path in (*folder.glob(f"{title}.py"), *folder.glob(f"{title}_*.py"))
        if not any(path.stem == other or path.stem.startswith(f"{other}_") for other in others)
    ]


def test_every_module_has_a_test_of_its_own() -> None:
    untested = {
        name(path)
        for path in SOURCES
        # Other tests cover packages' `__init__` and migrations.
        if path.name != "__init__.py" and "migrations" not in path.parts and not own_tests(path)
    }
    without = untested - set(WITHOUT_TEST)
    assert without == set(), "add a test at the mirrored path, or an exception to house_tables.py"
    stale = set(WITHOUT_TEST) - untested
    assert stale == set(), "these have a test by now, or are gone: take them out of house_tables.py"


def test_a_module_without_a_test_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tests" / "ingest").mkdir(parents=True)
    (tmp_path / "tests" / "ingest" / "test_live_takeover.py").touch()
    assert own_tests(tmp_path / "ingest" / "live.py", tmp_path)
    assert not own_tests(tmp_path / "ingest" / "takeover.py", tmp_path)
    assert not own_tests(tmp_path / "media" / "live.py", tmp_path)
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "live_takeover.py").touch()
    assert not own_tests(tmp_path / "ingest" / "live.py", tmp_path)


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, set()).add(name(path))
    twice = {each: modules for each, modules in places.items() if len(modules) > 1}
    assert twice == {}


def test_no_file_speaks_of_the_place_where_it_was_written() -> None:
    places = [
        f"{name(path)}:{number}: {match[0]}"
        for path in FILES
        for number, line in enumerate(text(path).splitlines(), 1)
        if (match := WORDS_OF_A_WORKPLACE.search(line))
    ]
    assert places == []


@pytest.mark.parametrize(
    "line",
    ["see /ro" + "ot/.config", "https://py" + "pi.org/simple", "part 1 " + "of 5"],
)
def test_words_of_a_workplace_are_noticed(line: str) -> None:
    assert WORDS_OF_A_WORKPLACE.search(line)


REQUIREMENTS: Final = [*ROOT.glob("requirements/*.txt"), *ROOT.glob("bench/*/requirements.txt")]


@pytest.mark.parametrize("path", REQUIREMENTS, ids=name)
def test_requirements_are_exact_and_hashed_and_name_no_address(path: Path) -> None:
    content = path.read_text()
    assert "://" not in content
    assert not re.search(r"^\s*-(?!-hash=)", content, re.MULTILINE), "an option of pip"
    for block in re.split(r"\n(?=\S)", content):
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", block), block.splitlines()[0]
        assert "--hash=sha256:" in block, block.splitlines()[0]


def versions(path: Path) -> dict[str, set[str]]:
    """Return the pinned versions by package; several if they differ by platform."""
    pinned: dict[str, set[str]] = {}
    for line in pins(path):
        requirement = Requirement(line)
        pin = str(requirement.specifier).removeprefix("==")
        pinned.setdefault(canonicalize_name(requirement.name), set()).add(pin)
    return pinned


@pytest.mark.parametrize("file", ["runtime.txt", "build.txt"])
def test_what_is_tested_is_what_runs(file: str) -> None:
    shipped, dev = (versions(ROOT / "requirements" / each) for each in (file, "dev.txt"))
    assert {package: dev.get(package) for package in shipped} == shipped


@pytest.mark.parametrize(
    ("file", "groups"),
    [("runtime.txt", []), ("build.txt", ["build"]), ("dev.txt", ["build", "dev"])],
    ids=["runtime", "build", "dev"],
)
def test_the_pins_satisfy_what_the_project_declares(file: str, groups: list[str]) -> None:
    pinned = versions(ROOT / "requirements" / file)
    lines = [] if file == "build.txt" else [*PROJECT["project"]["dependencies"]]
    lines += [each for group in groups for each in PROJECT["dependency-groups"][group]]
    for requirement in (Requirement(line) for line in lines if isinstance(line, str)):
        versions_pinned = pinned.get(canonicalize_name(requirement.name))
        assert versions_pinned, f"{requirement.name}: run `make requirements`"
        assert all(requirement.specifier.contains(version) for version in versions_pinned), (
            requirement.name
        )


@pytest.mark.parametrize("folder", ["web", "bench/nms", "bench/players", "tests/e2e/node"])
def test_a_lock_of_javascript_names_no_registry(folder: str) -> None:
    lock = json.loads((ROOT / folder / "package-lock.json").read_text())
    packages = lock["packages"]
    assert [path for path, each in packages.items() if "resolved" in each] == []
    assert [path for path, each in packages.items() if path and "integrity" not in each] == []


def test_every_dependency_has_its_line_and_every_line_its_dependency() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    listed = re.findall(r"^\| ([\w.@/-]+) \|", page, re.MULTILINE)
    assert sorted(each for each in listed if each != "package") == sorted(declared())


def test_the_changelog_knows_the_version() -> None:
    version = re.escape(PROJECT["project"]["version"])
    assert re.search(rf"^## {version}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}


def dead_links(page: Path) -> list[str]:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    dead: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{page.name}: {link}")
    return dead


def test_links_between_pages_lead_somewhere() -> None:
    assert [link for path in FILES if path.suffix == ".md" for link in dead_links(path)] == []


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](#a-title) [b](https://example.org) [c](#none) [d](gone.md)\n")
    assert dead_links(page) == ["page.md: #none", "page.md: gone.md"]


def test_make_alone_lists_every_command() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony is not None
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = [line.split()[1] for line in listed.splitlines()]
    assert sorted(commands) == sorted(set(phony[1].split()))


@pytest.mark.parametrize("path", [*ROOT.glob("scripts/*.sh"), ROOT / ".ci" / "run"], ids=name)
def test_scripts_can_be_run(path: Path) -> None:
    assert path.stat().st_mode & 0o111 == 0o111
    shell = "bash" if "bash" in path.read_text().splitlines()[0] else "sh"
    subprocess.run([shell, "-n", path], check=True)
