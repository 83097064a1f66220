"""The wheel serves in an empty folder with what it declares, and the image's command does the same."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.deploy.servers import START_SECONDS, environment
from tests.deploy.shipped import ROOT, text
from tests.deploy.test_files import instructions, last
from tests.pdpp_site.web import free_port

pytestmark = pytest.mark.slow

BUILT_FROM = (
    "cli", "demo", "evidence", "importers", "mcp_adapter", "operations", "owner", "pdpp_site",
    "pyproject.toml", "README.md", "LICENSE", *(path.name for path in ROOT.glob("requirements*.txt")),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the account of the embedded database can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="pdpp-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def copied(names: Sequence[str], target: Path) -> Path:
    """Copy files of this project, so that a build leaves nothing in it."""
    target.mkdir()
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, target)
    return target


@contextlib.contextmanager
def serving(command: Sequence[str], *, cwd: Path, **variables: str) -> Iterator[str]:
    """Run a server until it is ready; its address. It ends with its signal."""
    port = str(free_port())
    given = environment(PDPP_PORT=port, PYTHONUNBUFFERED="1", **variables)
    with (cwd / "log").open("w+") as log:
        process = subprocess.Popen(command, cwd=cwd, env=given, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _await(f"{url}/readyz", process, cwd / "log")
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
    assert status in {0, 128 + signal.SIGTERM}, (cwd / "log").read_text()


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=10).close()  # noqa: S310 - it is http
            return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - it is http
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_wheel_serves_in_an_empty_folder(folder: Path) -> None:
    source = copied(BUILT_FROM, folder / "source")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    extras = folder / "extras"
    shutil.copytree(ROOT / "extras", extras, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder / "dist", source, extras], check=True)
    extra_wheel, wheel = sorted((folder / "dist").iterdir())
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    subprocess.run([python, *pip[1:], "install", wheel, extra_wheel], check=True)
    list_kinds = "from importers.registry import installed_importers as found; print(found())"
    kinds = subprocess.check_output([python, "-I", "-c", list_kinds], cwd=folder, text=True)
    empty = folder / "empty"
    empty.mkdir()

    with serving([str(folder / "venv/bin/pdpp-server")], cwd=empty) as url:
        styles = re.findall(r'href="(/static/[^"]+\.css)"', page(f"{url}/login"))
        statuses = [status_of(f"{url}{path}") for path in styles]
        refused = status_of(f"{url}/v1/schema")

    assert wheel.name.startswith("pdpp_server-")
    assert {"name='mbox'", "name='spotify'"} <= {*re.findall(r"name='\w+'", kinds)}
    assert (empty / "var/postgres").is_dir()
    assert statuses
    assert set(statuses) == {200}
    assert refused == 401
    assert "/set-up/" in (empty / "log").read_text()


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - it is http
        content: str = response.read().decode()
        return content


def test_command_of_the_image_serves(folder: Path) -> None:
    """No container engine is needed: the same files, command and variables in a folder."""
    names = [
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    image = copied(names, folder / "image")
    (image / ".venv").symlink_to(Path(sys.prefix))
    variables = dict(re.findall(r"\b(\w+)=(\S+)", last("ENV")))
    variables |= {"PDPP_VAR": str(folder / "kept"), "PDPP_BIND": "127.0.0.1"}
    del variables["PDPP_PORT"]
    [check] = re.findall(r"CMD (\[.*\])", last("HEALTHCHECK"))

    with serving(json.loads(last("CMD")), cwd=image, **variables) as url:
        command = json.loads(check.replace("http://127.0.0.1:8000", url))
        healthy = subprocess.run(command, cwd=image, check=False).returncode

    assert healthy == 0
    assert (folder / "kept/postgres").is_dir()
    assert "STOPSIGNAL SIGTERM" in text("docker/Dockerfile")
    assert not (image / "var").exists()
    assert os.access(folder / "kept", os.W_OK)
