"""Where a command writes: results to standard output, everything else to standard error."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evidence.cli.failures import Failure
from evidence.cli.shown import json_text, line, plain


@dataclass(frozen=True, slots=True)
class Output:
    """For people, or as JSON for programs."""

    as_json: bool

    def body(self, body: Any, people: Iterable[str]) -> None:
        """The answer: as it came for programs, as `people` words it otherwise."""
        if self.as_json:
            write(json_text(json.dumps(body, ensure_ascii=False, indent=2)))
        else:
            for each in people:
                write(plain(each))

    def note(self, text: str) -> None:
        """A word to whoever watches; programs are left in peace."""
        if not self.as_json:
            tell(text)

    def failure(self, failure: Failure) -> None:
        """Why the command ended, on standard error in either form."""
        if self.as_json:
            tell(json_text(json.dumps(failure.body, ensure_ascii=False)))
            return
        tell(f"pdpp: {plain(failure.message)} ({plain(failure.code)})")
        if failure.param is not None:
            tell(f"  concerns: {plain(failure.param)}")
        for connection in failure.detail.get("available_connections") or ():
            tell(f"  {_candidate(connection)}")
        if failure.next_step is not None:
            tell(f"  next: {plain(failure.next_step)}")
        if request_id := failure.detail.get("request_id"):
            tell(f"  request: {plain(request_id)}")


def write(text: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """One line beside the result."""
    sys.stderr.write(f"{text}\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = 60) -> list[str]:
    """Columns that line up; a cell is cut at `most` characters, the last column never."""
    cells = [list(heads)] + [
        [line(cell, most=most if n < len(row) - 1 else 0) for n, cell in enumerate(row)]
        for row in rows
    ]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _candidate(connection: Any) -> str:
    if not isinstance(connection, dict):
        return plain(connection)
    label = connection.get("display_name") or connection.get("connector_key") or ""
    return f"--connection {plain(connection.get('connection_id'))}  {line(label)}".rstrip()
