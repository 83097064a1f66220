"""The program of the sandbox that runs a live source for one account.

Arguments: the private folder, the top-level package and its folder, and the number of a Unix socket.
It reads one request from standard input, and answers with messages. The source can ask the server
to connect it, and gets a connected socket; seccomp denies it all other sockets.
"""

import imaplib
import logging
import os
import socket
import ssl
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

if __name__ == "__main__":  # isolated mode leaves out this folder
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import evidence
import importers
from importers.core import isolation
from importers.core.results import ReceiptCode, issue_only
from importers.core.sandbox_worker import (
    encode_item,
    load_object,
    load_package,
    parse_item,
    read_message,
    write_message,
)
from importers.core.source import (
    Change,
    Checkpoint,
    Event,
    Gone,
    Item,
    ProblemCode,
    Source,
    SourceError,
    SourceRun,
)
from importers.core.source_http import tls_context

ACCOUNT_BYTES = 100 * 1024 * 1024
"""Stands for the size of an export in the limit of CPU time."""


def main() -> None:
    work_folder, package, package_folder, descriptor = sys.argv[1:]
    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a source may print
    logging.disable(logging.CRITICAL)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=int(descriptor))
    tls = tls_context()
    folders = [Path(module.__path__[0]) for module in (importers, evidence)]
    readable = (*folders, Path(package_folder))
    enforced = [
        isolation.limit_memory(),
        isolation.restrict_files(readable=readable, writable=Path(work_folder)),
        isolation.limit_time(export_bytes=ACCOUNT_BYTES),
        isolation.restrict_calls(),
    ]
    write_message(responses, {"enforced": enforced})
    Worker(sys.stdin.buffer, responses, channel, tls).serve(package, Path(package_folder))


@dataclass
class Worker:
    """Answers one request about an account, and is the ``Network`` of its source."""

    requests: IO[bytes]
    responses: IO[bytes]
    channel: socket.socket
    tls: ssl.SSLContext

    def serve(self, package: str, folder: Path) -> None:
        request = read_message(self.requests)
        try:
            if package not in sys.modules:
                load_package(package, folder)
            self._answer(request)
        except SourceError as error:
            self._fail(error, request)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of a source ends its run
            self._fail(_describe(error), request)

    def connect(self, host: str, port: int, *, is_encrypted: bool = True) -> socket.socket:
        """Return a socket that the server connected. Raises ``SourceError``."""
        answer = self._ask({"connect": [host, port]})
        if "failed" in answer:
            raise SourceError(ProblemCode(answer["failed"][0]), str(answer["failed"][1]))
        _, descriptors, _, _ = socket.recv_fds(self.channel, 1, 1)
        family = socket.AF_INET6 if answer["family"] == 6 else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM, fileno=descriptors[0])
        connected.settimeout(float(answer["seconds"]))
        return self.tls.wrap_socket(connected, server_hostname=host) if is_encrypted else connected

    def known(self, container: str, refs: Collection[str] | None) -> dict[str, str]:
        asked = None if refs is None else list(refs)
        return dict(self._ask({"known": container, "refs": asked})["items"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        write_message(self.responses, question)
        return read_message(self.requests)

    def _answer(self, request: dict[str, Any]) -> None:
        source = load_object(request["object"], Source)
        run = SourceRun(
            settings=request["settings"],
            credential=request["credential"],
            state=request["state"],
            network=self,
            known=self.known,
            series_keys=lambda: self._ask({"series": True})["keys"],
            now=request["now"],
        )
        if request["do"] == "containers":
            containers = [asdict(each) for each in source.containers(run)]
            write_message(self.responses, {"containers": containers})
            return
        self._send(source.run(run), {tuple(each) for each in request["skip"]})
        write_message(self.responses, {"done": True})

    def _send(self, events: Iterator[Event], skip: Collection[tuple[str, ...]]) -> None:
        """Send what comes before each state together with it.

        Each item is announced before it is parsed, so that the server knows which one ended this
        process, and has it skipped.
        """
        step = _Step()
        for event in events:
            if isinstance(event, Checkpoint):
                write_message(self.responses, step.header(event), step.payload)
                step = _Step()
                continue
            if isinstance(event, Item):
                write_message(self.responses, {"start": [event.container, event.ref]})
                if (event.container, event.ref) in skip:
                    parse = issue_only(ReceiptCode.UNREADABLE, "it stopped the source")
                    event = replace(event, content=replace(event.content, parse=parse))
            step.add(event)

    def _fail(self, error: SourceError, request: dict[str, Any]) -> None:
        detail = error.detail
        for secret in request["credential"].values():
            detail = detail.replace(str(secret), "…")
        write_message(self.responses, {"failed": [error.code, detail[:200]]})


class _Step:
    """Events since the last state."""

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {"items": [], "seen": [], "changes": [], "gone": []}
        self.payload: list[bytes] = []

    def add(self, event: Item | Change | Gone) -> None:
        if isinstance(event, Item):
            header, payload = encode_item(event.content, parse_item(event.content))
            self._lists["items"].append(header)
            self._lists["seen"].append([event.container, event.ref, event.mark])
            self.payload += payload
        elif isinstance(event, Change):
            changed = [event.container, event.ref, event.mark, dict(event.fields)]
            self._lists["changes"].append(changed)
        else:
            self._lists["gone"].append([event.container, event.ref, event.keeps_record])

    def header(self, checkpoint: Checkpoint) -> dict[str, Any]:
        return {
            **self._lists,
            "state": checkpoint.state,
            "progress": [checkpoint.done, checkpoint.total],
            "ends_pass": checkpoint.ends_pass,
            "skipped": checkpoint.skipped,
        }


def _describe(error: Exception) -> SourceError:
    """Return what an error of a library means to the owner."""
    name = type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return SourceError(ProblemCode.BAD_CERTIFICATE, error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return SourceError(ProblemCode.NO_TLS)
    if isinstance(error, TimeoutError):
        return SourceError(ProblemCode.TOO_SLOW)
    if isinstance(error, OSError | imaplib.IMAP4.abort | HTTPException | EOFError):
        return SourceError(ProblemCode.CONNECTION_LOST, name)
    if isinstance(error, imaplib.IMAP4.error):
        return SourceError(ProblemCode.SERVER_REFUSED, name)
    return SourceError(ProblemCode.SOURCE_FAILED, name)


if __name__ == "__main__":
    main()
