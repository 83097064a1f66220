"""Find the installed importers and live sources without importing their code.

A package registers by an entry point of the group ``pdpp.importers`` or ``pdpp.sources`` whose value
is its top-level module. The ``importers.toml`` or ``sources.toml`` in its folder names its importers or
sources, their settings and declarations.
"""

import importlib.util
import logging
import tomllib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import orjson

from importers.core.importer import LEVELS, Installed, InstalledImporter
from importers.core.source import FieldKind, InstalledSource, SourceField

OWN_PACKAGE = "importers"
"""Our importers; also found where the server runs from a clone, which is not installed."""
SHARED = "pdpp:"
"""Prefix of one of our declarations, such as ``pdpp:bank``."""
OWN_FOLDER = Path(__file__).parent
T = TypeVar("T", bound=Installed)

logger = logging.getLogger(__name__)


class ManifestError(Exception):
    """A manifest is missing or wrong; the message names the member."""


@cache
def installed_importers() -> tuple[InstalledImporter, ...]:
    """Return all importers: those of other packages by package name, then ours.

    A package with a wrong manifest, or with a name or source of another one, is left out and logged.
    """
    own = load_importers(OWN_PACKAGE, OWN_FOLDER)
    return (*_of_others("importers", load_importers, own, own), *own)


@cache
def installed_sources() -> tuple[InstalledSource, ...]:
    """Return all sources: ours, then those of other packages, as ``installed_importers`` does."""
    own = load_sources(OWN_PACKAGE, OWN_FOLDER)
    return (*own, *_of_others("sources", load_sources, own, (*own, *installed_importers())))


def find_source(name: str) -> InstalledSource | None:
    return next((source for source in installed_sources() if source.name == name), None)


def _of_others(
    table: str, load: Callable[[str, Path], list[T]], own: list[T], known: Sequence[Installed]
) -> list[T]:
    """Return what other packages have. Declarations must differ from those that are ``known``."""
    accepted: list[T] = []
    for package in sorted({each.value for each in entry_points(group=f"pdpp.{table}")}):
        if package == OWN_PACKAGE:
            continue
        try:
            found = load(package, find_folder(package))
            for each in found:
                _require_unique(each, [*accepted, *own], [*accepted, *known])
        except ManifestError as error:
            logger.warning("%s of %s were left out: %s", table, package, error)
            continue
        accepted += found
    return accepted


def _require_unique(
    found: Installed, named: Sequence[Installed], known: Sequence[Installed]
) -> None:
    """Refuse a name that is taken, and a declaration that would replace one of another package."""
    for other in named:
        if found.name == other.name:
            raise ManifestError(f"the name {found.name} is taken by {other.package}.")
    for other in known:
        is_same_source = found.connector_key == other.connector_key
        if is_same_source and found.declaration != other.declaration:
            raise ManifestError(f"connector_key {found.connector_key} is taken by {other.package}.")


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


def load_importers(package: str, folder: Path) -> list[InstalledImporter]:
    """Return the importers of a package. Raises ``ManifestError``."""
    return [
        InstalledImporter(
            **known,
            level=_choice(entry, "level", LEVELS),
            proof=_text(entry, "proof") if "proof" in entry else "",
            stored_fields=_fields_by_stream(entry.get("stored_fields")),
            twin_fields=_twin_fields(known["declaration"]),
            has_local_times=entry.get("has_local_times") is True,
        )
        for entry, known in _read_entries(package, folder, "importers")
    ]


def load_sources(package: str, folder: Path) -> list[InstalledSource]:
    """Return the live sources of a package. Raises ``ManifestError``."""
    try:
        return [
            InstalledSource(
                **known,
                fields=tuple(map(_parse_field, entry["fields"])),
                hosts=tuple((str(host), str(port)) for host, port in entry.get("hosts", ())),
                volatile=_fields_by_stream(entry.get("volatile")),
                interval=timedelta(minutes=int(entry.get("minutes", 5))),
                container_title=str(entry.get("container_title") or ""),
                container_field=str(entry.get("container_field") or ""),
                dependents=tuple(map(str, entry.get("dependents") or ())),
                has_deletions=bool(entry.get("has_deletions", True)),
                signs_in=bool(entry.get("signs_in")),
                discovery=str(entry.get("discovery") or ""),
                companion=str(entry.get("companion") or ""),
            )
            for entry, known in _read_entries(package, folder, "sources")
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"fields, hosts, volatile or minutes cannot be read: {error!r}."
        raise ManifestError(message) from None


def _read_entries(
    package: str, folder: Path, table: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the entries of a manifest, and what every one of them has. Raises ``ManifestError``."""
    manifest = folder / f"{table}.toml"
    try:
        entries = tomllib.loads(manifest.read_text(encoding="utf-8")).get(table)
    except (OSError, ValueError) as error:
        raise ManifestError(f"{manifest.name} cannot be read: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise ManifestError(f"{manifest.name} has no [[{table}]].")
    for entry in entries:
        declaration = _read_declaration(_text(entry, "declaration"), folder)
        yield (
            entry,
            {
                "name": _text(entry, "name"),
                "title": _text(entry, "title"),
                "label": _text(entry, "label"),
                "object_path": _object_path(entry, package),
                "folder": folder,
                "declaration": declaration,
                "connector_key": _connector_key(declaration),
                "twin_prefix": str(entry.get("twin_prefix") or ""),
                "series_stream": str(entry.get("series_stream") or ""),
            },
        )


def _object_path(entry: Any, package: str) -> str:
    path = _text(entry, "object")
    module, _, attribute = path.partition(":")
    if not attribute.isidentifier() or module.partition(".")[0] != package:
        raise ManifestError(f"object takes a path such as {package}.importer:NAME; got {path!r}.")
    return path


def _choice(entry: dict[str, Any], name: str, choices: Sequence[str]) -> str:
    value = entry.get(name, "")
    if value not in ("", *choices):
        raise ManifestError(f"{name} takes {', '.join(choices)}; got {value!r}.")
    return str(value)


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


def _parse_field(entry: Any) -> SourceField:
    return SourceField(
        _text(entry, "name"),
        _text(entry, "label"),
        FieldKind(entry.get("kind", "text")),
        str(entry.get("hint") or ""),
        str(entry.get("default") or ""),
        bool(entry.get("is_optional")),
    )


def _text(entry: Any, name: str) -> str:
    """Return a text of a manifest. Raises ``ManifestError``."""
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 200:
        raise ManifestError(f"{name} takes a text of up to 200 characters; got {value!r}.")
    return value


def _read_declaration(name: str, folder: Path) -> bytes:
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


def _connector_key(declaration: bytes) -> str:
    """Return the key of a declaration. Raises ``ManifestError``."""
    try:
        key = orjson.loads(declaration)["connector_key"]
    except (ValueError, TypeError, KeyError):
        key = None
    if not isinstance(key, str):
        raise ManifestError("the declaration has no connector_key.")
    return key
