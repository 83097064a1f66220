"""Files that are written piece by piece: nothing looks finished before it is."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence.cli import exits
from evidence.cli.failures import Failure


def beside(path: Path, suffix: str) -> Path:
    """A companion of a file, such as `mail.ndjson.part`."""
    return path.with_name(path.name + suffix)


def refuse_existing(path: Path, *, replace: bool) -> None:
    """Nobody's file is overwritten unasked."""
    if path.exists() and not replace:
        raise Failure(
            "file_exists",
            f"{path} exists.",
            exit_code=exits.NOT_WRITTEN,
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
            exit_code=exits.NOT_WRITTEN,
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
