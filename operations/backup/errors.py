"""Why a backup cannot be made or restored; the docstring is the message, ``next_step`` what to do."""

from typing import ClassVar


class BackupFault(Exception):  # noqa: N818 a family of faults, named for what it is about
    """The backup cannot be used."""

    next_step: ClassVar[str] = ""

    def __init__(self, detail: str = "") -> None:
        sentence = (self.__doc__ or type(self).__name__).partition("\n")[0]
        self.message = f"{sentence} {detail}".strip()
        super().__init__(self.message)


class NotABackup(BackupFault):
    """This file is no backup of this program."""


class NewerFormat(BackupFault):
    """This backup was made by a newer version of this program."""

    next_step = "Update this program to that version or a later one, then restore."


class WrongKey(BackupFault):
    """The passphrase or key file does not open this backup, or its beginning was changed."""

    next_step = "Nothing can open it without the one it was made with."


class Damaged(BackupFault):
    """The backup was changed, damaged or cut short after it was made."""

    next_step = "Nothing of it was restored. Use another copy."


class CutShort(BackupFault):
    """The backup ends too early: it was not copied or written to its end."""

    next_step = "Nothing of it was restored. Use a complete copy."


class NotEmpty(BackupFault):
    """A backup is restored into an empty database, and this one holds something."""

    next_step = "Make a new database, or set PDPP_VAR to a new folder, and restore there."


class OtherMigrations(BackupFault):
    """The tables of this database are of another version than those of the backup."""

    next_step = "Restore into a database that was never migrated; restoring does that by itself."


class OtherSecret(BackupFault):
    """The backup was made under another PDPP_SECRET_KEY than the one set now."""

    next_step = (
        "Set the one it was made under; or restore with --with-keys, where the backup was made so;"
        " or with --without-the-key, which ends every token and leaves the ledger without its seals."
    )


class NoKeys(BackupFault):
    """The backup was made without the server's secret key."""

    next_step = "Leave out --with-keys and set PDPP_SECRET_KEY yourself."


class BadKey(BackupFault):
    """A backup needs a passphrase of at least 12 characters or a key file of at least 32 bytes."""


class FileExists(BackupFault):
    """There is a file of that name, and a backup never replaces one."""


class SomebodyRestores(BackupFault):
    """Another restore into this database is under way."""
