"""Find the installed importers without importing their code.

A package registers by an entry point of the group ``pdpp.importers`` whose value is its top-level
module. The ``importers.toml`` in its folder names its importers and their declarations.
"""

import importlib.util
import logging
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import orjson

from importers.core.importer import LEVELS, InstalledImporter

GROUP = "pdpp.importers"
MANIFEST = "importers.toml"
OWN_PACKAGE = "importers"
"""Our importers; also found where the server runs from a clone, which is not installed."""
SHARED = "pdpp:"
"""Prefix of one of our declarations, such as ``pdpp:bank``."""
OWN_FOLDER = Path(__file__).parent

logger = logging.getLogger(__name__)


class ManifestError(Exception):
    """An ``importers.toml`` is missing or wrong; the message names the member."""


@cache
def installed_importers() -> tuple[InstalledImporter, ...]:
    """Return all importers: those of other packages by package name, then ours.

    A package with a wrong manifest, or with a name or source of another one, is left out and logged.
    """
    own = load_manifest(OWN_PACKAGE, OWN_FOLDER)
    accepted: list[InstalledImporter] = []
    for package in other_packages(GROUP):
        try:
            found = load_manifest(package, find_folder(package))
            _require_unique(found, (*accepted, *own))
        except ManifestError as error:
            logger.warning("importers of %s were left out: %s", package, error)
            continue
        accepted += found
    return (*accepted, *own)


def other_packages(group: str) -> list[str]:
    """Return the names of other installed packages that have importers or sources."""
    return sorted({entry.value for entry in entry_points(group=group)} - {OWN_PACKAGE})


def find_folder(package: str) -> Path:
    """Return the folder of a top-level package without importing it. Raises ``ManifestError``."""
    if not package.isidentifier():
        raise ManifestError(f"the entry point names a top-level package; got {package!r}.")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ManifestError(f"there is no package {package}.")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def load_manifest(package: str, folder: Path) -> list[InstalledImporter]:
    """Return the importers of a package. Raises ``ManifestError``."""
    entries = read_entries(folder / MANIFEST, "importers")
    return [_parse_entry(entry, package, folder) for entry in entries]


def read_entries(manifest: Path, table: str) -> list[Any]:
    """Return the tables with this name of a manifest. Raises ``ManifestError``."""
    try:
        members = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{manifest.name} cannot be read: {error}") from None
    entries = members.get(table)
    if not isinstance(entries, list) or not entries:
        raise ManifestError(f"{manifest.name} has no [[{table}]].")
    return entries


def object_member(entry: Any, package: str) -> str:
    """Return the path of an object of the package. Raises ``ManifestError``."""
    path = text_member(entry, "object")
    module, _, attribute = path.partition(":")
    if not attribute.isidentifier() or module.partition(".")[0] != package:
        raise ManifestError(f"object takes a path such as {package}.importer:NAME; got {path!r}.")
    return path


def _parse_entry(entry: Any, package: str, folder: Path) -> InstalledImporter:
    declaration = read_declaration(text_member(entry, "declaration"), folder)
    return InstalledImporter(
        name=text_member(entry, "name"),
        title=text_member(entry, "title"),
        label=text_member(entry, "label"),
        object_path=object_member(entry, package),
        folder=folder,
        declaration=declaration,
        connector_key=connector_key_of(declaration),
        level=_level(entry),
        proof=text_member(entry, "proof") if "proof" in entry else "",
        remembers_by_layout=entry.get("remembers_by_layout") is True,
        stored_fields=_fields_by_stream(entry.get("stored_fields")),
        twin_prefix=str(entry.get("twin_prefix") or ""),
        twin_fields=_twin_fields(declaration),
        series_stream=str(entry.get("series_stream") or ""),
        has_local_times=entry.get("has_local_times") is True,
        has_recurring_events=entry.get("has_recurring_events") is True,
    )


def _level(entry: dict[str, Any]) -> str:
    level = entry.get("level", "")
    if level not in ("", *LEVELS):
        raise ManifestError(f"level takes {', '.join(LEVELS)}; got {level!r}.")
    return str(level)


def _twin_fields(declaration: bytes) -> dict[str, tuple[str, ...]]:
    """Return the fields by stream by which a declaration says that records are the same."""
    try:
        schemas = {each["name"]: each["schema"] for each in orjson.loads(declaration)["streams"]}
        found = {name: schema.get("x_pdpp_twin_fields") for name, schema in schemas.items()}
        return _fields_by_stream({name: fields for name, fields in found.items() if fields})
    except (KeyError, TypeError, AttributeError):  # it is checked when it is stored
        return {}


def _fields_by_stream(values: Any) -> dict[str, tuple[str, ...]]:
    return {str(stream): tuple(map(str, names)) for stream, names in (values or {}).items()}


def text_member(entry: Any, name: str) -> str:
    """Return a text of a manifest. Raises ``ManifestError``."""
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 200:
        raise ManifestError(f"{name} takes a text of up to 200 characters; got {value!r}.")
    return value


def read_declaration(name: str, folder: Path) -> bytes:
    """Return a declaration of the package, or one of ours. Raises ``ManifestError``."""
    if name.startswith(SHARED):
        folder, name = OWN_FOLDER, f"declarations/{name.removeprefix(SHARED)}.json"
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise ManifestError(f"declaration takes a file of the package; got {name!r}.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ManifestError(f"declaration {name}: {error.strerror}.") from None


def connector_key_of(declaration: bytes) -> str:
    """Return the key of a declaration. Raises ``ManifestError``."""
    try:
        key = orjson.loads(declaration)["connector_key"]
    except (ValueError, TypeError, KeyError):
        key = None
    if not isinstance(key, str):
        raise ManifestError("the declaration has no connector_key.")
    return key


def _require_unique(found: list[InstalledImporter], others: tuple[InstalledImporter, ...]) -> None:
    """Refuse a name that is taken, and a declaration that would replace one of another package."""
    for importer in found:
        for other in others:
            if importer.name == other.name:
                raise ManifestError(f"the name {importer.name} is taken by {other.package}.")
            is_same_source = importer.connector_key == other.connector_key
            if is_same_source and importer.declaration != other.declaration:
                raise ManifestError(
                    f"connector_key {importer.connector_key} is taken by {other.package}."
                )


def iter_packages(
    importers: tuple[InstalledImporter, ...],
) -> Iterator[tuple[InstalledImporter, ...]]:
    """Yield the importers of each package, in order."""
    for package in dict.fromkeys(importer.package for importer in importers):
        yield tuple(importer for importer in importers if importer.package == package)
