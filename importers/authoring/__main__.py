"""``pdpp-importer new NAME`` writes a package with a working importer and its tests."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

_TEMPLATE = Path(__file__).parent / "template"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdpp-importer", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="write a package into a new folder pdpp-importer-NAME")
    new.add_argument("name", metavar="NAME", help="what it imports: small letters, digits, hyphens")
    name = parser.parse_args(arguments).name
    folder = Path(f"pdpp-importer-{name}")
    if not _NAME.fullmatch(name) or len(name) > 40:
        parser.error(f"NAME takes up to 40 small letters, digits and hyphens; got {name!r}.")
    if folder.exists():
        parser.error(f"{folder} exists already. Choose another name, or remove it.")
    write_package(folder, name)
    sys.stdout.write(
        f"{folder} has a working importer for a diary. Next:\n"
        f"  cd {folder}\n  pip install -e . pytest\n  pytest\n"
        "Then change importer.py and declaration.json; docs/write-an-importer.md describes both.\n"
    )
    return 0


def write_package(folder: Path, name: str) -> None:
    """Write the template with the name filled in."""
    package = f"pdpp_{name.replace('-', '_')}"
    for source in sorted(_TEMPLATE.rglob("*.tmpl")):
        relative = source.relative_to(_TEMPLATE).as_posix().removesuffix(".tmpl")
        target = folder / re.sub("^package/", f"{package}/", relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(text.replace("PACKAGE", package).replace("NAME", name), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
