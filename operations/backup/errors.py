"""Backup and restore errors, each with the next step to take.

The docstring of a class is its message, and `next_step` says what to do.
"""

from typing import ClassVar


class BackupError(Exception):
    """The backup cannot be used."""

    next_step: ClassVar[str] = ""

    def __init__(self, detail: str = "") -> None:
        self.message = f"{self.__doc__ or type(self).__name__} {detail}".strip()
        super().__init__(self.message)


class NotABackupError(BackupError):
    """The file is not a PDPP backup."""


class NewerFormatError(BackupError):
    """A newer version of this program made the backup."""

    next_step = "Update this program to that version or a later one, then restore."


class WrongKeyError(BackupError):
    """The passphrase or key file does not open this backup, or its header was changed."""

    next_step = "Use the passphrase or key file that the backup was made with."


class DamagedError(BackupError):
    """The backup was changed, damaged or cut short after it was made."""

    next_step = "Nothing was restored. Use another copy."


class TruncatedError(BackupError):
    """The backup is cut short: the file is incomplete."""

    next_step = "Nothing was restored. Use a complete copy."


class NotEmptyError(BackupError):
    """The database is not empty."""

    next_step = "Create a new database, or set PDPP_VAR to a new folder, and restore there."


class MigrationsDifferError(BackupError):
    """The tables of this database have another version than those of the backup."""

    next_step = "Restore into a database that was never migrated: restore migrates it."


class SecretKeyDiffersError(BackupError):
    """The backup was made under another PDPP_SECRET_KEY than the current one."""

    next_step = (
        "Set the PDPP_SECRET_KEY of the backup; or restore with --with-keys, if the backup contains"
        " it; or with --without-the-key, which revokes all tokens and removes the ledger's seals."
    )


class NoKeysError(BackupError):
    """The backup does not contain the server's secret key."""

    next_step = "Leave out --with-keys and set PDPP_SECRET_KEY yourself."


class WeakKeyError(BackupError):
    """A backup needs a passphrase of at least 12 characters or a key file of at least 32 bytes."""


class BackupExistsError(BackupError):
    """The file exists, and a backup never replaces one."""


class RestoreRunningError(BackupError):
    """Another restore into this database is running."""
