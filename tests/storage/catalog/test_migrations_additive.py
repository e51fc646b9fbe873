"""Steps that only add: taken beside running processes, and no hindrance for an older version."""

import ast
from pathlib import Path

import pytest

from storage.catalog import migrations, open_catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.migrations import REVISION, check
from storage.errors import SchemaNewer
from tests.support.sql import run_sql

FOLDER = Path(migrations.__file__).parent / "versions"
NEWER = f"{REVISION.partition('.')[0]}.999"


def faults(source: str) -> list[str]:
    """Return what a step does that an older version could not live with."""
    messages: list[str] = []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    new_tables = {
        ast.unparse(node.args[0]) for node in calls if ast.unparse(node.func) == "op.create_table"
    }
    for node in calls:
        if not isinstance(node.func, ast.Attribute):
            continue
        if not isinstance(node.func.value, ast.Name) or node.func.value.id != "op":
            continue
        name = node.func.attr
        if name == "add_column":
            statement = ast.unparse(node.args[1])
            if "nullable=True" not in statement and "server_default=" not in statement:
                messages.append(f"a column that older code must fill: {statement}")
        elif name == "create_index":
            if ast.unparse(node.args[1]) not in new_tables:
                messages.append(f"an index that holds up writers: {ast.unparse(node)}")
        elif name not in {"create_table", "execute", "f", "get_bind"} and not _relaxes(node):
            messages.append(name)
        elif name == "execute" and "INSERT INTO" not in ast.unparse(node):
            messages.append(ast.unparse(node))
    return messages


def _relaxes(node: ast.Call) -> bool:
    """Return whether a call lets a column be null that older code always fills, and no more."""
    is_alteration = ast.unparse(node.func) == "op.alter_column"
    return is_alteration and [ast.unparse(each) for each in node.keywords] == ["nullable=True"]


def test_a_step_with_a_point_in_its_revision_only_adds() -> None:
    added = [path for path in FOLDER.glob("[0-9]*.py") if "." in revision_of(path.read_text())]
    found = {path.name: faults(path.read_text()) for path in added if faults(path.read_text())}
    assert found == {}


def revision_of(source: str) -> str:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "revision":
            return str(ast.literal_eval(node.value))
    raise AssertionError("a step without a revision")


@pytest.mark.parametrize(
    "line",
    [
        "op.drop_table('players')",
        "op.drop_column('players', 'name')",
        "op.alter_column('players', 'name', nullable=False)",
        "op.add_column('players', sa.Column('more', sa.Integer(), nullable=False))",
        "op.execute('UPDATE players SET name = 1')",
        "op.create_index('a', 'players', ['name'])",
    ],
)
def test_a_step_that_changes_what_is_there_is_noticed(line: str) -> None:
    assert faults(f"def upgrade():\n    {line}\n") != []
    new = "    op.create_table('more')\n    op.create_index('a', 'more', ['name'])\n"
    assert faults(f"def upgrade():\n{new}") == []
    assert faults("def upgrade():\n    op.alter_column('players', 'name', nullable=True)\n") == []
    column = "sa.Column('more', sa.Integer(), nullable=False, server_default='0')"
    assert faults(f"def upgrade():\n    op.add_column('players', {column})\n") == []


@pytest.mark.parametrize("migrating", [True, False])
async def test_a_catalog_that_a_newer_version_has_added_to_is_used_as_it_is(
    either_database: str | Path, migrating: bool
) -> None:
    async with open_catalog(either_database, migrate=True) as catalog:
        await catalog.installation.first_start(1)
        run_sql(
            either_database,
            "CREATE TABLE more (id INTEGER)",
            "ALTER TABLE players ADD COLUMN more INTEGER",
            f"UPDATE alembic_version SET version_num = '{NEWER}'",
        )
        await catalog.ping()
    async with open_catalog(either_database, migrate=migrating) as catalog:
        project = await catalog.projects.find("1")
        assert project is not None
        await catalog.ping()
    assert run_sql(either_database, "SELECT version_num FROM alembic_version") == [(NEWER,)]


async def test_a_copy_of_all_tables_refuses_added_ones(either_database: str | Path) -> None:
    async with open_catalog(either_database, migrate=True):
        run_sql(either_database, f"UPDATE alembic_version SET version_num = '{NEWER}'")
    async with open_database(database_url(either_database), create=False) as database:
        await check(database)
        with pytest.raises(SchemaNewer):
            await check(database, exactly=True)
