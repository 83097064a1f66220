"""What lies in ``deploy/``, taken as it is, but for the places that differ on every machine."""

import shlex
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def text(name: str, changed: Mapping[str, str] = {}) -> str:
    """A shipped file. Each of the places to change must be there."""
    said = (DEPLOY / name).read_text()
    for old, new in changed.items():
        assert old in said, f"{name} has no {old}"
        said = said.replace(old, new)
    return said


@dataclass(frozen=True)
class Unit:
    """A service of systemd: the lines of its sections, by key."""

    sections: Mapping[str, Mapping[str, list[str]]]

    def all(self, key: str, *, section: str = "Service") -> list[str]:
        return self.sections[section].get(key, [])

    def one(self, key: str, *, section: str = "Service") -> str:
        [value] = self.all(key, section=section)
        return value

    @property
    def command(self) -> list[str]:
        return shlex.split(self.one("ExecStart"))

    @property
    def environment(self) -> dict[str, str]:
        return dict(
            each.split("=", 1) for line in self.all("Environment") for each in shlex.split(line)
        )


def unit(name: str, *, var: Path, instance: str = "") -> Unit:
    """A shipped unit with the places of this tree; ``instance`` is what stands after the @."""
    return parsed(unit_text(name, var=var).replace("%i", instance))


def unit_text(name: str, *, var: Path) -> str:
    here = {
        "/opt/pdpp/.venv/bin/python": sys.executable,
        "WorkingDirectory=/opt/pdpp": f"WorkingDirectory={ROOT}",
        "PDPP_VAR=/var/lib/pdpp": f"PDPP_VAR={var}",
    }
    return text(f"systemd/{name}", here)


def parsed(said: str) -> Unit:
    sections: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    section = ""
    for line in said.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            sections[section][key].append(value)
    return Unit(sections)


def environment_file(name: str, *, commented: bool = False) -> dict[str, str]:
    """What ``EnvironmentFile=`` would read; with ``commented`` also what is there to be chosen."""
    lines = text(name).splitlines()
    if commented:
        lines = [line.removeprefix("#") for line in lines]
    kept = [line for line in lines if line and not line.startswith("#") and "=" in line]
    return dict(line.split("=", 1) for line in kept if " " not in line.partition("=")[0])
