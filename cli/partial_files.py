"""Write a file in parts under a `.part` name, save the state for resuming, and show progress."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from cli import errors
from cli.errors import CliError

ReportProgress: TypeAlias = Callable[[int, int | None], None]
"""Takes the amount done and the total, or None if the total is unknown."""


def sibling_path(path: Path, suffix: str) -> Path:
    """Return the path with a suffix added to its name, such as `mail.ndjson.part`."""
    return path.with_name(path.name + suffix)


def reject_existing(path: Path, *, replace: bool) -> None:
    """Raise CliError if the file exists and `replace` is false."""
    if path.exists() and not replace:
        raise CliError(
            "file_exists",
            f"{path} exists.",
            exit_code=errors.NOT_WRITTEN,
            param="--output",
            next_step="Choose another file with --output, or pass --replace.",
        )


@contextlib.contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Convert an OSError inside the block to a CliError."""
    try:
        yield
    except OSError as error:
        raise CliError(
            "file_not_writable",
            f"{path} cannot be written: {error.strerror or error}.",
            exit_code=errors.NOT_WRITTEN,
            param="--output",
        ) from error


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Replace a JSON file atomically and durably."""
    temporary = sibling_path(path, ".new")
    with temporary.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load_state(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file, or an empty dict if it is missing or unreadable."""
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


@contextlib.contextmanager
def progress_bar(title: str, *, quiet: bool, in_bytes: bool = False) -> Iterator[ReportProgress]:
    """Show a progress bar during the block, if standard error is a terminal and not `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    # rich takes longer to import than most commands take to run.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, Remaining())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
