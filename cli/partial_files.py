"""Files that are written piece by piece: nothing looks finished before it is."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from cli import errors
from cli.errors import Failure


def beside(path: Path, suffix: str) -> Path:
    """A companion of a file, such as `mail.ndjson.part`."""
    return path.with_name(path.name + suffix)


def refuse_existing(path: Path, *, replace: bool) -> None:
    """Nobody's file is overwritten unasked."""
    if path.exists() and not replace:
        raise Failure(
            "file_exists",
            f"{path} exists.",
            exit_code=errors.NOT_WRITTEN,
            param="--output",
            next_step="Name another file with --output, or pass --replace.",
        )


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Whatever the file system refuses becomes a `Failure`."""
    try:
        yield
    except OSError as error:
        raise Failure(
            "file_not_writable",
            f"{path} cannot be written: {error.strerror or error}.",
            exit_code=errors.NOT_WRITTEN,
            param="--output",
        ) from error


def remember(path: Path, state: dict[str, Any]) -> None:
    """Replace a small JSON file at once, safe against a sudden end."""
    new = beside(path, ".new")
    with new.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def remembered(path: Path) -> dict[str, Any]:
    """What such a file holds; nothing where there is none or it cannot be read."""
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


Advance: TypeAlias = Callable[[int, int | None], None]
"""Takes what is done so far and, where known, how much there is."""


@contextlib.contextmanager
def progress(title: str, *, quiet: bool, in_bytes: bool = False) -> Iterator[Advance]:
    """A bar until the block ends; nothing at all in a pipe or for programs."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    # Imported late: rich takes longer to load than most commands take to run.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    counted = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counted, Remaining())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
