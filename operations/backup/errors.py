"""Backup and restore errors, each with the next step to take.

The docstring of a class is its message, and `next_step` says what to do.
"""

from typing import ClassVar


class BackupError(Exception):
    """The backup cannot be used."""

    next_step: ClassVar[str] = ""

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        self.message = f"{self.__doc__ or type(self).__name__} {detail}".strip()
        super().__init__(self.message)

    @property
    def text(self) -> str:
        """Return the message with the next step."""
        return f"{self.message} {self.next_step}".strip()


class NotABackupError(BackupError):
    """The file is not a PDPP backup."""


class NewerFormatError(BackupError):
    """A newer version of this program made the backup."""

    next_step = "Update this program to that version or a later one, then restore."


class WrongKeyError(BackupError):
    """The passphrase, key file or key does not open this backup, or its header was changed."""

    next_step = "Use the one that the backup was made with."


class RecoveryWordsError(BackupError):
    """These words are not a recovery key."""

    next_step = "Compare them with what you wrote down."


class OtherRecoveryKeyError(BackupError):
    """The backup needs another recovery key."""

    next_step = "Use the words of that key, or a backup that was made with this one."


class DamagedError(BackupError):
    """The backup was changed, damaged or cut short after it was made."""

    next_step = "Nothing was restored. Use another copy."


class TruncatedError(BackupError):
    """The backup is cut short: the file is incomplete."""

    next_step = "Nothing was restored. Use a complete copy."


class NotEmptyError(BackupError):
    """The database is not empty."""

    next_step = "Create a new database, or set PDPP_VAR to a new folder, and restore there."


class OwnerExistsError(BackupError):
    """This owner has records or settings here already."""

    next_step = "Use --replace to delete them, and restore those of the backup instead."


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


class FolderMissingError(BackupError):
    """The folder for backups does not exist, or its disk is not mounted:"""

    next_step = "Connect the disk, or choose another folder on the page Backups."


class FolderDeniedError(BackupError):
    """The server may not write into the folder for backups:"""

    next_step = "Give its account write access, or choose another folder on the page Backups."


class DiskFullError(BackupError):
    """The disk of the folder for backups is full:"""

    next_step = "Free some space, or keep fewer backups."


class FolderFailedError(BackupError):
    """The folder for backups cannot be used:"""

    next_step = "Check its disk, or choose another folder on the page Backups."


class StoppedError(BackupError):
    """The backup or drill stopped with an unexpected error:"""

    next_step = "See the server's log. A backup is tried again in an hour."


class StoreMissingError(BackupError):
    """The store has no such bucket."""

    next_step = "Create the bucket at your provider, or correct its name on the page Backups."


class StoreDeniedError(BackupError):
    """The store refused the access key."""

    next_step = (
        "Allow the key to write, list and delete objects of the bucket, or enter another one."
    )


class StoreUnreachableError(BackupError):
    """The store cannot be reached:"""

    next_step = "Check its address and its certificate. The backup is tried again in an hour."


class StoreBlockedError(BackupError):
    """The store has a private address:"""

    next_step = "If it is in your own network, say so on the page Backups."


class StorePlainError(BackupError):
    """A store outside of your own network needs an https address."""


class StoreFailedError(BackupError):
    """The store reported an error:"""

    next_step = "The backup is tried again in an hour."


class StoreExtraMissingError(BackupError):
    """Stores need the package boto3, which is not installed."""

    next_step = "Run: pip install -r requirements-s3.txt"


class StoreSealedError(BackupError):
    """The secret key of the store was encrypted with another key of this installation."""

    next_step = "Enter it again on the page Backups."


class BackupMissingError(BackupError):
    """The backup is no longer where it was stored:"""

    next_step = "Use another backup."


class DrillFailedError(BackupError):
    """The drill failed; the detail is the message of the restore."""
