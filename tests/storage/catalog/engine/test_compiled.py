"""Statements are compiled once in a process, whichever engine runs them."""

from pathlib import Path
from typing import Any

from sqlalchemy import BindParameter, Integer, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from storage.catalog.engine.compiled import CompiledStatements
from storage.catalog.engine.database import database_url, open_database
from tests.support.shared_engines import ON_BOTH

_compiled: list[str] = []


class _Marked(FunctionElement[int]):
    """A whole number that says when it is compiled."""

    inherit_cache = True
    type = Integer()


@compiles(_Marked)  # pyright: ignore[reportUntypedFunctionDecorator]
def _compile(_element: _Marked, compiler: SQLCompiler, **_options: Any) -> str:
    _compiled.append(compiler.dialect.name)
    return "40"


def _number(value: int) -> BindParameter[int]:
    return literal(value, Integer)


@ON_BOTH
async def test_a_statement_is_compiled_once_for_all_engines_of_a_driver(
    location: str | Path,
) -> None:
    _compiled.clear()
    values: list[int] = []
    for opened in range(2):
        async with open_database(database_url(location), create=True) as database:
            for number, begin in enumerate((database.reading, database.writing, database.beating)):
                async with begin() as connection:
                    query = select(_Marked() + _number(opened * 10 + number))
                    values.append((await connection.execute(query)).scalar_one())
    assert values == [40, 41, 42, 50, 51, 52]
    assert len(_compiled) == 1


def test_what_was_not_used_for_long_is_dropped() -> None:
    cache = CompiledStatements()
    compiled = select(_number(1)).compile()
    for number in range(10_000):
        cache[None, number] = compiled
        assert cache.get((None, 0)) is compiled
    assert cache.get((None, 1)) is None
    assert cache.get((None, 9_999)) is compiled
    assert 1_000 <= len(cache) <= 1_500
