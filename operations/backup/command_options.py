"""Read a backup's passphrase or key file from command options."""

import getpass
import os
import secrets
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from operations.backup.archive import Secret
from operations.backup.errors import WeakKeyError

KEY_FILE_MAX_BYTES = 64 * 1024


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="KEY",
        help="Use the content of this file, at least 32 bytes. Default: ask for a passphrase, or"
        " read it from standard input if there is no terminal.",
    )


def secret(options: dict[str, Any], *, new: bool) -> Secret:
    """Return the secret. `new` asks twice for the passphrase. Raises WeakKeyError and OSError."""
    if options["key_file"] is not None:
        with options["key_file"].open("rb") as file:
            return Secret("file", file.read(KEY_FILE_MAX_BYTES))
    return Secret("passphrase", _read_passphrase(new=new).encode())


def make_key_file(path: Path) -> None:
    """Create a random key with mode 0600. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")


def _read_passphrase(*, new: bool) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    passphrase = getpass.getpass("Passphrase of the backup: ")
    if new and getpass.getpass("Repeat the passphrase: ") != passphrase:
        raise WeakKeyError("The two passphrases differ.")
    return passphrase
