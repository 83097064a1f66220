"""The programs of the sandbox in a thread instead of a process, for tests of anything else."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from importers.core import source_worker
from importers.core.importer import InstalledImporter
from importers.core.sandbox import Process, Session
from importers.core.sandbox_worker import MessageError, Worker, write_message
from importers.core.source_http import tls_context


@contextmanager
def open_in_thread(importer: InstalledImporter, export: Path) -> Iterator[Session]:
    request_pipe, response_pipe = os.pipe(), os.pipe()

    def work() -> None:
        worker = Worker(export)
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


@contextmanager
def start_in_thread(
    _program: Path, package: str, folder: Path, descriptor: int, **_: object
) -> Iterator[Process]:
    """Run a live source, as ``source_process.start_process`` does for ``source_worker``.

    The thread ends when it next sends a message after the block.
    """
    request_pipe, response_pipe = os.pipe(), os.pipe()
    channel = socket.socket(fileno=os.dup(descriptor))

    def work() -> None:
        with (
            channel,
            os.fdopen(request_pipe[0], "rb") as requests,
            suppress(OSError),
            os.fdopen(response_pipe[1], "wb") as responses,
        ):
            write_message(responses, {"enforced": [True] * 4})
            with suppress(MessageError):
                source_worker.Worker(requests, responses, channel, tls_context()).serve(
                    package, folder
                )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    requests, responses = os.fdopen(request_pipe[1], "wb"), os.fdopen(response_pipe[0], "rb")
    try:
        yield Process(requests, responses)
    finally:
        responses.close()
        with suppress(OSError):
            requests.close()
        thread.join()
