"""Runs the collected tests in several processes, which are forks of the one that collected them.

Importing all tests takes seconds of CPU: it is done once. Each fork asks for one unit of tests
after another and reports what became of each test; the collecting process runs none, and shows
the reports as if the tests had run there. A fork that dies fails its test, and another takes its
place.
"""

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

import msgspec
import pytest

from tests.support.forks import run_to_the_end

# Returns the indices of the tests of the next unit for a process, if there is one.
NextUnit = Callable[[int], Sequence[int]]
# What a fork tells: the name of a hook and its arguments, or that it needs a unit, or its end.
_Message = tuple[Literal["hook", "next", "end"], str, Any]  # Any: what pytest's hooks take
_Location = tuple[str, int | None, str]


class _Member(msgspec.Struct):
    """A fork as its parent sees it."""

    number: int
    pid: int
    running: tuple[str, _Location] | None = None
    unit: list[str] = []  # node IDs of tests that it has not begun


def run_in_forks(
    session: pytest.Session,
    processes: int,
    next_unit: NextUnit,
    begin: Callable[[int], None],
    rest: Callable[[], object],
) -> list[object]:
    """Run all tests of a session, and return what `rest` returned at the end of each fork.

    `next_unit` is asked in this process, with the number of the fork that needs tests. `begin` is
    called with this number, and `rest` without it, at the beginning and the end of each fork.
    """
    crew = _Crew(session, next_unit, begin, rest)
    try:
        crew.run(processes)
    finally:
        crew.join()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return crew.results


class _Crew:
    """All forks of one run."""

    def __init__(
        self,
        session: pytest.Session,
        next_unit: NextUnit,
        begin: Callable[[int], None],
        rest: Callable[[], object],
    ) -> None:
        self.results: list[object] = []
        self._session = session
        self.begin = begin
        self.rest = rest
        self._next_unit = next_unit
        self._is_stopping = False
        self._members: dict[Connection, _Member] = {}
        self._left: list[list[int]] = []  # what forks that died had not begun
        self._indices = {item.nodeid: index for index, item in enumerate(session.items)}

    def run(self, processes: int) -> None:
        """Start so many forks, and serve them until no test is left."""
        for number in range(processes):
            self._start(number)
        while self._members:
            for connection in wait([*self._members]):
                assert isinstance(connection, Connection)
                try:
                    message: _Message = connection.recv()
                except EOFError:
                    self._lose(connection)
                else:
                    self._take(connection, message)
                if _ends(self._session) and not self._is_stopping:
                    self._tell_all_to_stop()

    def join(self) -> None:
        """Wait for the forks that are left; their connections end first."""
        for connection, member in self._members.items():
            connection.close()
            os.waitpid(member.pid, 0)
        self._members.clear()

    def _start(self, number: int) -> None:
        ours, theirs = Pipe()
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            for connection in (ours, *self._members):
                connection.close()
            run_to_the_end(lambda _: _Fork(self._session, theirs).work(self, number), ())
        theirs.close()
        self._members[ours] = _Member(number, pid)

    def _take(self, connection: Connection, message: _Message) -> None:
        what, name, value = message
        member = self._members[connection]
        if what == "next":
            unit = [] if _ends(self._session) else self._left.pop() if self._left else None
            indices = list(self._next_unit(member.number) if unit is None else unit)
            member.unit += [self._session.items[index].nodeid for index in indices]
            connection.send(indices)
        elif what == "end":
            self.results.append(value)
            del self._members[connection]
            connection.close()
            os.waitpid(member.pid, 0)
        else:
            self._repeat(member, name, value)

    def _repeat(self, member: _Member, name: str, value: dict[str, Any]) -> None:
        hook = self._session.config.hook
        if name == "pytest_runtest_logstart":
            member.running = (value["nodeid"], value["location"])
            member.unit.remove(value["nodeid"])
        elif name == "pytest_runtest_logfinish":
            member.running = None
        elif name == "pytest_runtest_logreport":
            value = {
                "report": hook.pytest_report_from_serializable(
                    config=self._session.config, data=value
                )
            }
        getattr(hook, name)(**value)

    def _lose(self, connection: Connection) -> None:
        """Fail the test over which a fork died, and give the tests that it had to another."""
        member = self._members.pop(connection)
        connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(member.pid, 0)[1])
        if member.running is None:
            raise RuntimeError(f"process {member.number} ended between two tests: {status}")
        said = f"the process of this test ended: {status}"
        report = pytest.TestReport(*member.running, {}, "failed", said, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)
        if member.unit:
            self._left.append([self._indices[nodeid] for nodeid in member.unit])
        if not _ends(self._session):
            self._start(member.number)

    def _tell_all_to_stop(self) -> None:
        self._is_stopping = True
        for connection in self._members:
            try:
                connection.send([])
            except OSError:
                continue  # it has died, and is found to have


def _ends(session: pytest.Session) -> bool:
    return bool(session.shouldfail or session.shouldstop)


class _Fork:
    """The plugin of a fork, which runs tests and tells its parent what became of them."""

    def __init__(self, session: pytest.Session, parent: Connection) -> None:
        self._session = session
        self._parent = parent

    def work(self, crew: _Crew, number: int) -> int:
        """Run units of tests until there is none, or until the parent says so."""
        try:
            self._leave_the_terminal()
            self._use_own_folders(number)
            crew.begin(number)
            self._run_units()
            self._parent.send(("end", "", crew.rest()))
        except KeyboardInterrupt:
            return 1  # the parent says so
        except BaseException:  # noqa: BLE001  # nothing of the parent runs on in a fork
            traceback.print_exc()
            return 1
        return 0

    def _run_units(self) -> None:
        try:
            unit = self._ask()
            while unit:
                for index, following in pairwise(unit):
                    self._run(index, following)
                last = unit[-1]
                # The fixtures that the next unit shares with this one stay.
                unit = self._ask()
                self._run(last, unit[0] if unit else None)
        finally:
            # If the run ended early, there still are fixtures.
            self._session._setupstate.teardown_exact(None)  # pyright: ignore[reportPrivateUsage]

    def _leave_the_terminal(self) -> None:
        plugins = self._session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self)
        # Its files would be shared with the other forks.
        capture: Any = plugins.getplugin("capturemanager")  # Any: not public
        if capture is not None and capture.is_globally_capturing():
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()

    def _use_own_folders(self, number: int) -> None:
        factory: pytest.TempPathFactory = vars(self._session.config)["_tmp_path_factory"]
        folder = factory.mktemp(f"process{number}", numbered=False)
        factory._basetemp = folder  # pyright: ignore[reportPrivateUsage]

    def _ask(self) -> list[int]:
        self._parent.send(("next", "", None))
        return self._parent.recv()

    def _run(self, index: int, following: int | None) -> None:
        if self._parent.poll():
            # Nothing else is sent unasked: the run ends.
            self._session.shouldstop = "told to stop"
        if _ends(self._session):
            return
        items = self._session.items
        next_item = None if following is None else items[following]
        items[index].config.hook.pytest_runtest_protocol(item=items[index], nextitem=next_item)

    def _tell(self, name: str, value: Mapping[str, object]) -> None:
        self._parent.send(("hook", name, value))

    def pytest_runtest_logstart(self, nodeid: str, location: _Location) -> None:
        self._tell("pytest_runtest_logstart", {"nodeid": nodeid, "location": location})

    def pytest_runtest_logfinish(self, nodeid: str, location: _Location) -> None:
        self._tell("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._tell("pytest_runtest_logreport", data)
