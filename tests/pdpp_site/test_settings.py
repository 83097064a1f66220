"""The settings, as a process with a given environment has them. tests/test_docs.py compares the docs."""

import ast
import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from operations.postgres.server import socket_directory

ROOT = Path(__file__).resolve().parents[2]
CODE = (
    "manage.py", "cli", "demo", "evidence", "importers", "mcp_adapter", "operations", "owner",
    "pdpp_site",
)  # fmt: skip
VARIABLE = re.compile(r"(?:DATABASE_URL|PDPP_[A-Z_]+)\Z")
# Read by name as it stands in the agent's environment, not configuration of the server.
SECRET = "correct-horse-battery-staple-" * 3


def read_in_settings() -> set[str]:
    """Every name that the settings ask the environment for."""
    tree = ast.parse((ROOT / "pdpp_site/settings.py").read_text())
    asked = [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and isinstance(node.args[0], ast.Constant)
    ]
    return {str(name) for name in asked}


def named_in_code() -> set[str]:
    """Every string in the code that is the name of a variable of ours."""
    files = [path for name in CODE for path in _sources(ROOT / name)]
    strings = [
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {text for text in strings if VARIABLE.match(text)}


def _sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def documented() -> set[str]:
    """Return the variables in the table of docs/settings.md."""
    return set(
        re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    )


def settings_with(**environment: str) -> "subprocess.CompletedProcess[str]":
    """What the settings say in a process with exactly this environment."""
    program = (
        "import json; from pdpp_site import settings as s\n"
        "print(json.dumps({n: getattr(s, n) for n in dir(s) if n.isupper()}, default=str))"
    )
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_is_read_in_the_first_block_alone() -> None:
    text = (ROOT / "pdpp_site/settings.py").read_text()
    _, block, rest = re.split(r"^# --- .*$", text, maxsplit=2, flags=re.MULTILINE)

    assert set(re.findall(r'env\.\w+\("([A-Z_]+)"', block)) == read_in_settings()
    assert not re.search(r"env\.(?!db_url_config)|os\.environ", rest)


def test_bringing_a_database_without_a_key_is_refused() -> None:
    failed = settings_with(DATABASE_URL="postgresql://pdpp@db/pdpp")

    assert failed.returncode != 0
    assert "PDPP_SECRET_KEY must be set" in failed.stderr


def test_in_public_everything_is_pinned_to_tls() -> None:
    said = json.loads(
        settings_with(
            DATABASE_URL="postgresql://pdpp@db/pdpp",
            PDPP_PUBLIC_URL="https://pdpp.example/",
            PDPP_SECRET_KEY=SECRET,
        ).stdout
    )

    assert said["PDPP_PUBLIC_URL"] == "https://pdpp.example"
    assert "pdpp.example" in said["ALLOWED_HOSTS"]
    assert said["SESSION_COOKIE_SECURE"] is said["CSRF_COOKIE_SECURE"] is True
    assert said["SESSION_COOKIE_NAME"].startswith("__Host-")
    assert said["SECURE_SSL_REDIRECT"] is True
    assert said["SECURE_HSTS_SECONDS"] >= 365 * 24 * 3600
    assert said["DEBUG"] is False


def test_at_home_it_is_an_embedded_database_and_a_key_of_its_own(tmp_path: Path) -> None:
    said = json.loads(settings_with(PDPP_VAR=str(tmp_path)).stdout)

    assert said["EMBEDDED"] is True
    socket = str(socket_directory(tmp_path / "postgres"))
    assert said["DATABASES"]["default"]["OPTIONS"]["host"] == socket
    assert said["SECRET_KEY"] == json.loads((tmp_path / "keys.json").read_text())["secret_key"]
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600
    assert set(said["ALLOWED_HOSTS"]) == {"127.0.0.1", "localhost", "[::1]"}


def test_connections_are_pooled_unless_a_pooler_does_it() -> None:
    given = {"DATABASE_URL": "postgresql://pdpp@db/pdpp", "PDPP_SECRET_KEY": SECRET}

    own = json.loads(settings_with(**given).stdout)["DATABASES"]["default"]
    pooler = json.loads(settings_with(**given, PDPP_PGBOUNCER="1").stdout)["DATABASES"]["default"]

    assert own["OPTIONS"]["pool"]["max_size"] >= 8
    assert own["OPTIONS"]["prepare_threshold"] is not None
    assert "pool" not in pooler["OPTIONS"]
    assert pooler["OPTIONS"]["prepare_threshold"] is None
    assert pooler["DISABLE_SERVER_SIDE_CURSORS"] is True


REQUIREMENTS = [ROOT / f"requirements{extra}.txt" for extra in ("", "-semantic")]
REQUIREMENTS += [ROOT / "extras/requirements.txt"]
LISTS = [path for folder in (ROOT, ROOT / "extras") for path in folder.glob("requirements*.txt")]


@pytest.mark.parametrize(
    "line", [line for path in REQUIREMENTS for line in path.read_text().splitlines()]
)
def test_every_requirement_is_pinned_and_says_what_it_is_needed_for(line: str) -> None:
    assert re.fullmatch(r"[a-z0-9-]+(\[[a-z,]+\])?==\S+  # needed for .+", line)


def test_every_package_that_make_installs_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    locked = {line.split()[0] for line in lock.splitlines() if " --hash=sha256:" in line}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"].values()
    lists = "".join(path.read_text() for path in LISTS)
    named = [line.split()[0] for line in lists.splitlines()]
    named += [requirement for group in groups for requirement in group]
    plain = {re.sub(r"\[.*\]", "", each).replace("tessdata.", "tessdata-") for each in named}

    assert len(locked) == len(lock.splitlines())
    assert plain - locked == set()


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_requirements_are_in_order(path: Path) -> None:
    lines = path.read_text().splitlines()

    assert lines == sorted(lines)
