"""``pdpp-importer new NAME`` writes a package with a working importer or live source, and its tests.

``pdpp-importer corpus DIR`` reads the samples in a folder and compares them with what is expected.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from importers.authoring.corpus import WRONG, check_samples, summary_lines

_TEMPLATES = {"importer": "template", "source": "template_source"}
_SHARED = "package/declaration.json.tmpl"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdpp-importer", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="write a package into a new folder pdpp-importer-NAME")
    new.add_argument("name", metavar="NAME", help="what it reads: small letters, digits, hyphens")
    new.add_argument(
        "--source", action="store_true", help="write a live source, into pdpp-source-NAME"
    )
    corpus = commands.add_parser(
        "corpus", help="read samples, and compare them with what is expected"
    )
    corpus.add_argument("folder", metavar="DIR", type=Path)
    parsed = parser.parse_args(arguments)
    if "folder" in parsed:
        outcomes = list(check_samples(parsed.folder))
        sys.stdout.writelines(f"{line}\n" for line in summary_lines(outcomes))
        return int(any(each.result == WRONG for each in outcomes))
    name, kind = parsed.name, "source" if parsed.source else "importer"
    folder = Path(f"pdpp-{kind}-{name}")
    if not _NAME.fullmatch(name) or len(name) > 40:
        parser.error(f"NAME takes up to 40 small letters, digits and hyphens; got {name!r}.")
    if folder.exists():
        parser.error(f"{folder} exists already. Choose another name, or remove it.")
    write_package(folder, name, kind)
    sys.stdout.write(
        f"{folder} has a working {kind} for a diary. Next:\n"
        f"  cd {folder}\n  pip install -e . pytest\n  pytest\n"
        f"Then change {kind}.py and declaration.json; docs/write-an-importer.md describes both.\n"
    )
    return 0


def write_package(folder: Path, name: str, kind: str) -> None:
    """Write the template of an importer or a source with the name filled in."""
    package = f"pdpp_{name.replace('-', '_')}"
    here = Path(__file__).parent
    template = here / _TEMPLATES[kind]
    files = {path.relative_to(template).as_posix(): path for path in template.rglob("*.tmpl")}
    files.setdefault(_SHARED, here / _TEMPLATES["importer"] / _SHARED)
    for relative, source in sorted(files.items()):
        target = folder / re.sub("^package/", f"{package}/", relative.removesuffix(".tmpl"))
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(text.replace("PACKAGE", package).replace("NAME", name), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
