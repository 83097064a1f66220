"""Read what opens a backup from command options, the terminal or standard input."""

import getpass
import os
import secrets
import sys
from argparse import SUPPRESS, ArgumentParser
from pathlib import Path
from typing import Any

from operations.backup.errors import WeakKeyError, WrongKeyError
from operations.backup.keys import RECOVERY, RecoveryKey, Secret, read_header

KEY_FILE_MAX_BYTES = 64 * 1024


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="KEY",
        help="Use the content of this file, at least 32 bytes. Default: ask for what the backup"
        " needs, or read it from standard input if there is no terminal.",
    )


def add_opened(parser: ArgumentParser) -> None:
    """Add the option of a drill, whose process gets the secret of one file, as hexadecimal digits."""
    parser.add_argument("--opened", action="store_true", help=SUPPRESS)


def new_secret(options: dict[str, Any]) -> Secret:
    """Return the secret of a new backup. Raises WeakKeyError and OSError."""
    if options["key_file"] is not None:
        return _key_file(options["key_file"])
    passphrase = _ask("Passphrase of the backup: ")
    if sys.stdin.isatty() and _ask("Repeat the passphrase: ") != passphrase:
        raise WeakKeyError("The two passphrases differ.")
    return Secret("passphrase", passphrase.encode())


def read_secret(path: Path, options: dict[str, Any]) -> Secret:
    """Ask for the secret that a backup needs, by its header. Raises BackupError and OSError."""
    if options.get("opened"):
        return Secret(RECOVERY, bytes.fromhex(sys.stdin.readline().strip()))
    if options["key_file"] is not None:
        return _key_file(options["key_file"])
    with path.open("rb") as file:
        header = read_header(file)
    if header.kind == RECOVERY:
        words = _ask(f"The 12 words of recovery key {header.fingerprint}: ")
        return header.unlock(RecoveryKey.parse(words, expected=header.fingerprint))
    if header.kind != "passphrase":
        raise WrongKeyError(header.needs)
    return Secret("passphrase", _ask("Passphrase of the backup: ").encode())


def make_key_file(path: Path) -> None:
    """Create a random key with mode 0600. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")


def _key_file(path: Path) -> Secret:
    with path.open("rb") as file:
        return Secret("file", file.read(KEY_FILE_MAX_BYTES))


def _ask(prompt: str) -> str:
    """Return a line that was typed without being shown, or that of standard input."""
    return getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
