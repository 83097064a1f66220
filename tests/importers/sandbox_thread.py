"""A session of the sandbox in a thread instead of a process, for tests of anything else."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from importers.core.importer import InstalledImporter
from importers.core.sandbox_process import Session
from importers.core.sandbox_worker import Worker


@contextmanager
def open_in_thread(importer: InstalledImporter, export: Path) -> Iterator[Session]:
    request_pipe, response_pipe = os.pipe(), os.pipe()

    def work() -> None:
        worker = Worker(export, importer.package)
        with (
            os.fdopen(request_pipe[0], "rb") as requests,
            suppress(OSError),
            os.fdopen(response_pipe[1], "wb") as responses,
        ):
            worker.serve(requests, responses, lambda: [bool(worker.export)] * 4)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    requests, responses = os.fdopen(request_pipe[1], "wb"), os.fdopen(response_pipe[0], "rb")
    try:
        session = Session(export, requests, responses)
        session.open()
        yield session
    finally:
        responses.close()
        with suppress(OSError):
            requests.close()
        thread.join()
