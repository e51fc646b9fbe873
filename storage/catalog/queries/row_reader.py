"""Reads records out of rows: each field from the column of its name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Executable, Table

from storage.catalog.engine.connection import AsyncConnection

R = TypeVar("R", bound=msgspec.Struct)
Parsers = Mapping[str, Callable[[Any], object]]  # Any: what a column holds
_NO_PARSERS: Final[Parsers] = {}


class RowReader(Generic[R]):
    """Reads records of one type.

    A field is read from `columns` under its name; else from the column of `table` that has its
    name, or its name with `_id`. Other fields are given to `read`. `parsers` convert the values of
    some fields. Statements begin with the reader's `columns`; more may follow.
    """

    def __init__(
        self,
        record: type[R],
        table: Table | None = None,
        *,
        parsers: Parsers = _NO_PARSERS,
        **columns: ColumnElement[Any],  # Any: columns of every type
    ) -> None:
        if table is not None:
            for name in record.__struct_fields__:
                found = next((each for each in (name, f"{name}_id") if each in table.c), None)
                if found is not None:
                    columns.setdefault(name, table.c[found])
        self._record = record
        self._names = tuple(columns)
        self._parsers = parsers
        self.columns = tuple(column.label(name) for name, column in columns.items())

    def read(self, row: Sequence[Any], **others: object) -> R:  # Any: as above
        """Return the record of a row, with `others` as the fields that are not as in the row."""
        values = dict(zip(self._names, row, strict=False))
        for name, parse in self._parsers.items():
            values[name] = parse(values[name])
        return self._record(**{**values, **others})

    async def find(self, connection: AsyncConnection, statement: Executable) -> R | None:
        """Return the record of a statement that yields one row at most."""
        row = (await connection.execute(statement)).one_or_none()
        return None if row is None else self.read(row)

    async def find_all(self, connection: AsyncConnection, statement: Executable) -> tuple[R, ...]:
        """Return the records of the rows that a statement yields."""
        return tuple(map(self.read, await connection.execute(statement)))
