"""Which system account runs the embedded PostgreSQL, which refuses to run as root.

An ordinary user runs it under the own account. Root runs it under the owner of the existing
data, or under a system account made for it. That account must be able to walk to the data and
to the binaries; where a directory on the way bars it, the directory gets the search bit for
others (``o+x``), which shows nobody what it holds.
"""

import os
import pwd
import stat
import subprocess
from pathlib import Path

ACCOUNT = "pdpp-postgres"


class EmbeddedPostgresError(RuntimeError):
    """The embedded PostgreSQL cannot be started or stopped."""


def account_for(data: Path) -> pwd.struct_passwd | None:
    """The account to switch to, or None where this process runs the server as itself."""
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise EmbeddedPostgresError(
                f"{data} belongs to another user; run as that user, or set PDPP_VAR elsewhere."
            )
        return None
    return pwd.getpwuid(owner) if owner else _dedicated_account()


def _dedicated_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--user-group"]
        made = subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", ACCOUNT],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode not in (0, 9):  # 9: somebody else has just made it
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and the account {ACCOUNT} cannot be made: "
                f"{made.stderr.strip()}"
            ) from None
        return pwd.getpwnam(ACCOUNT)


def let_in(account: pwd.struct_passwd, *, to: Path) -> None:
    """Make every directory above ``to`` searchable for the account."""
    for directory in to.resolve().parents:
        found = directory.stat()
        bit = _search_bit(account, found)
        if not found.st_mode & bit:
            directory.chmod(stat.S_IMODE(found.st_mode) | bit)


def let_run(account: pwd.struct_passwd, *, binaries: Path) -> None:
    """Make an installation readable for the account, wherever a strict umask has barred it."""
    let_in(account, to=binaries / "postgres")
    if (binaries / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    for path in [binaries.parent, *binaries.parent.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        executable = stat.S_IXOTH if mode & stat.S_IXUSR else 0
        path.chmod(mode | stat.S_IROTH | executable)


def hand_over(path: Path, *, account: pwd.struct_passwd | None) -> None:
    """Give a path to the account; without one it is this process's own already."""
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)


def _search_bit(account: pwd.struct_passwd, found: os.stat_result) -> int:
    """The bit that decides for the account: the system looks at one class, the closest."""
    if found.st_uid == account.pw_uid:
        return stat.S_IXUSR
    return stat.S_IXGRP if found.st_gid == account.pw_gid else stat.S_IXOTH
