"""Tests that every live source passes: subclass ``SourceTests`` in a test module.

They run the source in its sandbox against a server of the test, without a database.
"""

import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar
from unittest.mock import patch

import jsonschema_rs
import orjson

from evidence.declarations.validation import parse_valid
from importers.core import source_process
from importers.core.results import Issue
from importers.core.source import Container, FieldKind, InstalledSource, ProblemCode, SourceError
from importers.core.source_http import parse_url
from importers.core.source_process import AccountAccess, SourceSession, Step, open_source
from importers.registry import find_source

NOW = "2026-01-05T08:00:00+00:00"
STATE_MAX_BYTES = 1_000_000

Address = tuple[str, int]
ItemId = tuple[str, str]


@dataclass(slots=True)
class RunResult:
    """What one run yielded."""

    steps: int = 0
    items: list[ItemId] = field(default_factory=list)
    changes: list[ItemId] = field(default_factory=list)
    gone: list[ItemId] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    silent_items: list[str] = field(default_factory=list)
    is_complete: bool = False


class Account:
    """An account in memory. It keeps records, marks and the state as the server does.

    Raises ``LookupError`` for an unknown source: ``pip install -e .`` installs it.
    """

    def __init__(self, source_name: str, entered: Mapping[str, str]) -> None:
        source = find_source(source_name)
        if source is None:
            raise LookupError(f"No source is named {source_name}. Install it: pip install -e .")
        self.source: InstalledSource = source
        self.settings: dict[str, Any] = {"containers": []}
        self.credential: dict[str, str] = {}
        self.state: dict[str, Any] = {}
        self.records: dict[tuple[str, str], dict[str, Any]] = {}
        self.marks: dict[ItemId, str] = {}
        self.connections: set[Address] = set()
        self._keys: dict[ItemId, tuple[str, str]] = {}
        for each in source.fields:
            self._enter(each.name, each.kind, entered.get(each.name, each.default))

    def _enter(self, name: str, kind: FieldKind, value: str) -> None:
        if kind.is_url:
            value, origin = parse_url(value)
            self.settings |= {"host": origin.host, "port": origin.port}
        if kind.is_secret:
            self.credential[name] = value
        elif value:
            self.settings[name] = int(value) if kind is FieldKind.PORT else value

    def containers(self) -> list[Container]:
        """Sign in, and choose what is usual. Raises ``SourceError``."""
        with self._open() as session:
            found = session.containers()
        self.settings["containers"] = [each.name for each in found if each.is_usual]
        return found

    def run(self, *, max_steps: int | None = None) -> RunResult:
        """Run the source, and end its process after some steps. Raises ``SourceError``."""
        result = RunResult()
        if not self.settings["containers"]:
            self.containers()
        with self._open() as session:
            for step in islice(session.steps(self._known), max_steps):
                result.steps += 1
                self._store(step, session, result)
        return result

    @contextmanager
    def _open(self) -> Iterator[SourceSession]:
        access = AccountAccess(
            settings=self.settings, credential=self.credential, state=self.state, now=NOW
        )
        with (
            patch.object(source_process, "open_connection", self._connect),
            open_source(self.source, access, is_stopped=lambda: False) as session,
        ):
            yield session

    def _connect(
        self, source: InstalledSource, settings: Mapping[str, Any], host: str, port: int, **_: Any
    ) -> socket.socket:
        self.connections.add((host, port))
        if (host, port) not in source.host_addresses(settings):
            raise SourceError(ProblemCode.SOURCE_FAILED, "the source asked for another host")
        return socket.create_connection((host, port), timeout=20)

    def _known(self, container: str, refs: Collection[str] | None) -> list[tuple[str, str]]:
        return [
            (ref, mark)
            for (place, ref), mark in self.marks.items()
            if place == container and (refs is None or ref in refs)
        ]

    def _store(self, step: Step, session: SourceSession, result: RunResult) -> None:
        for item, (container, ref, mark) in zip(step.items, step.seen, strict=True):
            for file in item.files:
                session.read(file.size)
            for record in item.records:
                data = orjson.loads(session.read(record.size))
                self.records[record.stream, record.key] = data
                self._keys.setdefault((container, ref), (record.stream, record.key))
            self.marks[container, ref] = mark
            result.items.append((container, ref))
            result.issues += item.issues
            if not item.records and not item.issues and not item.stale:
                result.silent_items.append(f"{container}, {ref}")
        for change in step.changes:
            item_id = change.container, change.ref
            self.marks[item_id] = change.mark
            self.records.get(self._keys.get(item_id, ("", "")), {}).update(change.fields)
            result.changes.append(item_id)
        for container, ref, _ in step.gone:
            self.marks.pop((container, ref), None)
            result.gone.append((container, ref))
        self.state = orjson.loads(orjson.dumps(step.state))
        result.is_complete = step.ends_pass


class SourceTests:
    """Give ``source_name``, and ``entered``: it starts a server with data for two steps or more."""

    source_name: ClassVar[str]
    first: ClassVar[tuple[Account, RunResult] | None] = None

    def entered(self) -> AbstractContextManager[Mapping[str, str]]:
        """Return what the owner enters for an account, while its server runs."""
        raise NotImplementedError

    def test_declaration_is_valid(self) -> None:
        source = find_source(self.source_name)
        assert source is not None
        parse_valid(orjson.loads(source.declaration))

    def _first_run(self) -> tuple[Account, RunResult]:
        """Read an account once for all tests that change nothing: the sandbox starts slowly."""
        found: tuple[Account, RunResult] | None = type(self).__dict__.get("first")
        if found is None:
            with self.entered() as entered:
                account = Account(self.source_name, entered)
                found = account, account.run()
            type(self).first = found
        return found

    def test_first_run_reads_everything(self) -> None:
        account, result = self._first_run()
        assert account.settings["containers"], "a container must be usual"
        assert account.records
        assert result.is_complete

    def test_running_again_changes_nothing(self) -> None:
        with self.entered() as entered:
            account = Account(self.source_name, entered)
            account.run()
            again = account.run()
        assert (again.items, again.changes, again.gone) == ([], [], [])
        assert again.is_complete

    def test_run_that_is_cut_after_any_step_continues(self) -> None:
        with self.entered() as entered:
            whole = Account(self.source_name, entered)
            steps = whole.run().steps
            for step in range(1, steps):
                account = Account(self.source_name, entered)
                before = account.run(max_steps=step)
                after = account.run()
                assert account.records == whole.records, step
                assert account.marks == whole.marks, step
                assert not set(before.items) & set(after.items), step

    def test_records_have_declared_fields_only(self) -> None:
        account, _ = self._first_run()
        declaration = orjson.loads(account.source.declaration)
        schemas = {stream["name"]: stream["schema"] for stream in declaration["streams"]}
        for (stream, _), record in account.records.items():
            assert record.keys() <= schemas[stream]["properties"].keys()
            jsonschema_rs.validate(schemas[stream], record)

    def test_no_item_is_left_out_without_a_receipt(self) -> None:
        _, result = self._first_run()
        assert result.silent_items == []

    def test_state_is_small_and_has_no_secret(self) -> None:
        account, _ = self._first_run()
        stored = orjson.dumps([account.state, list(account.marks), list(account.marks.values())])
        assert len(orjson.dumps(account.state)) < STATE_MAX_BYTES
        for secret in filter(None, account.credential.values()):
            assert secret.encode() not in stored

    def test_source_connects_to_entered_hosts_only(self) -> None:
        account, _ = self._first_run()
        assert account.connections <= account.source.host_addresses(account.settings)

    def test_wrong_secret_is_refused(self) -> None:
        with self.entered() as entered:
            account = Account(self.source_name, entered)
            secrets = [
                each.name
                for each in account.source.fields
                if each.kind is FieldKind.SECRET and not each.is_optional
            ]
            account.credential |= dict.fromkeys(secrets, "wrong")
            assert _problem(account) is (ProblemCode.PASSWORD_REFUSED if secrets else None)


def _problem(account: Account) -> ProblemCode | None:
    try:
        account.containers()
    except SourceError as error:
        return error.code
    return None
