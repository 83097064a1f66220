"""Progress bars on standard error, where a person watches."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

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
