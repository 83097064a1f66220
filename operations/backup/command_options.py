"""What a backup is opened with, as somebody at a terminal or a schedule gives it."""

import getpass
import os
import secrets
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from operations.backup.archive import Secret
from operations.backup.errors import BadKey

LONGEST_BYTES = 64 * 1024


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="KEY",
        help="Use the content of this file, 32 bytes or more. Without it a passphrase is asked for,"
        " or read from standard input where nobody can be asked.",
    )


def secret(options: dict[str, Any], *, new: bool) -> Secret:
    """``new``: for a backup that is to be made, so that a passphrase is typed twice. Raises
    ``BadKey`` and ``OSError``."""
    if options["key_file"] is not None:
        with options["key_file"].open("rb") as file:
            return Secret("file", file.read(LONGEST_BYTES))
    return Secret("passphrase", _passphrase(new=new).encode())


def make_key_file(path: Path) -> None:
    """A new key, for its owner's eyes alone. Raises ``FileExistsError``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")


def _passphrase(*, new: bool) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Passphrase of the backup: ")
    if new and getpass.getpass("The same again: ") != first:
        raise BadKey("The two are not the same.")
    return first
