"""The program of the sandbox that watches the accounts of one package for changes.

Arguments: as of ``source_worker``. Each account has two sockets, which arrive over the Unix socket of
the arguments: one for messages, as of ``source_worker``, and one for its connections. It is watched
in a thread, since a watch waits nearly all the time. The process ends with the Unix socket.
"""

import logging
import os
import socket
import ssl
import sys
import threading
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":  # isolated mode leaves out this folder
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import importers
from importers.core.messages import write_message
from importers.core.sandbox_worker import load_package
from importers.core.source_http import tls_context
from importers.core.source_worker import Worker, confine

STACK_BYTES = 512 * 1024
"""The limit of memory counts the whole stack of a thread."""


def main() -> None:
    work_folder, package, package_folder, descriptor = sys.argv[1:]
    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a source may print
    logging.disable(logging.CRITICAL)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=int(descriptor))
    tls = tls_context()
    write_message(responses, {"enforced": confine(Path(work_folder), Path(package_folder))})
    if package != importers.__name__:
        with suppress(Exception):  # each account reports the error
            load_package(package, Path(package_folder))
    threading.stack_size(STACK_BYTES)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not data:
            os._exit(0)  # threads wait for their servers
        arguments = (*descriptors, tls, package, Path(package_folder))
        threading.Thread(target=_watch, args=arguments, daemon=True).start()


def _watch(
    messages_descriptor: int,
    channel_descriptor: int,
    tls: ssl.SSLContext,
    package: str,
    folder: Path,
) -> None:
    messages = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=messages_descriptor)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=channel_descriptor)
    # The server ends a watch by closing its sockets.
    with suppress(Exception), messages, channel:
        requests, responses = messages.makefile("rb"), messages.makefile("wb")
        with requests, responses:
            Worker(requests, responses, channel, tls).serve(package, folder)


if __name__ == "__main__":
    main()
