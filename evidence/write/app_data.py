"""What other apps store about connections, records and owners, and how erasure reaches it.

An app that stores such rows or files registers one `AppData` when Django starts. Evidence then needs
to know no table of another app, and no app can store what an erasure would leave behind.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from evidence.write.rows import RecordId


class AppData:
    """The rows and files of one app. Each method runs in the transaction of its caller, if there is one."""

    connection_tables: ClassVar[Mapping[str, str]] = {}
    """Tables with a `connection_id`, in foreign key order, and what the owner calls their rows.

    They are emptied in bounded batches when their connection is erased.
    """
    record_tables: ClassVar[Collection[str]] = ()
    """Those of the tables that also have the columns `stream` and `record_key`."""

    def delete_records(self, refs: Collection["RecordId"]) -> None:
        """Delete what is stored about records that are deleted."""

    def forget_keys(self, connection_id: str, stream: str, keys: Collection[str]) -> None:
        """Clear the keys of records that are erased for good."""

    def delete_quotes(self, connection_id: str, *, before: datetime | None) -> Counter[str]:
        """Delete rows that may quote any record of a connection, or those from before a time.

        Returns the number of rows by kind.
        """
        return Counter()

    def delete_files(self, connection_id: str | None, *, include_queued: bool) -> None:
        """Delete files about a connection, or all files of the owner for None.

        Without ``include_queued``, files that wait for a job stay; the job deletes them.
        """

    def connection_deleted(self) -> None:
        """Delete what only the records of a deleted connection needed."""

    def rebuild(self, connection_ids: Collection[str]) -> None:
        """Derive again what the app derives from the records of these connections."""

    def delete_owner(self, owner_id: str) -> Counter[str]:
        """Delete what belongs to an owner and to no connection, and return its number by kind."""
        return Counter()

    def delete_expired(self, now: datetime) -> Counter[str]:
        """Delete what has expired, and return its number by kind."""
        return Counter()


_registered: dict[type[AppData], AppData] = {}


def register(data: AppData) -> None:
    """Add the data of an app; call it in ``AppConfig.ready``."""
    _registered[type(data)] = data


def registered() -> Iterable[AppData]:
    """Return the data of every app."""
    return _registered.values()


def connection_tables() -> dict[str, str]:
    """Return the tables of all apps that have a `connection_id`."""
    return {name: kind for data in registered() for name, kind in data.connection_tables.items()}


def delete_expired(now: datetime) -> Counter[str]:
    """Delete what has expired in every app, and return its number by kind, 0 too."""
    expired = Counter[str]()
    for data in registered():
        expired.update(data.delete_expired(now))
    return expired
