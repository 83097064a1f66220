"""Find the installed live sources without importing their code.

A package registers by an entry point of the group ``pdpp.sources`` whose value is its top-level
module. The ``sources.toml`` in its folder names its sources, their settings and declarations.
"""

import logging
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from importers.core.source import FieldKind, InstalledSource, SourceField
from importers.registry import (
    OWN_FOLDER,
    OWN_PACKAGE,
    ManifestError,
    connector_key_of,
    find_folder,
    installed_importers,
    object_member,
    other_packages,
    read_declaration,
    read_entries,
    text_member,
)

GROUP = "pdpp.sources"
MANIFEST = "sources.toml"

logger = logging.getLogger(__name__)


@cache
def installed_sources() -> tuple[InstalledSource, ...]:
    """Return all sources: ours, then those of other packages by package name.

    A package with a wrong manifest, or with a name or declaration of another one, is left out and
    logged.
    """
    accepted = load_manifest(OWN_PACKAGE, OWN_FOLDER)
    for package in other_packages(GROUP):
        try:
            found = load_manifest(package, find_folder(package))
            _require_unique(found, accepted)
        except ManifestError as error:
            logger.warning("sources of %s were left out: %s", package, error)
            continue
        accepted += found
    return tuple(accepted)


def find_source(name: str) -> InstalledSource | None:
    return next((source for source in installed_sources() if source.name == name), None)


def load_manifest(package: str, folder: Path) -> list[InstalledSource]:
    """Return the sources of a package. Raises ``ManifestError``."""
    entries = read_entries(folder / MANIFEST, "sources")
    return [_parse_entry(entry, package, folder) for entry in entries]


def _parse_entry(entry: Any, package: str, folder: Path) -> InstalledSource:
    declaration = read_declaration(text_member(entry, "declaration"), folder)
    try:
        fields = tuple(_parse_field(each) for each in entry["fields"])
        hosts = tuple((str(host), str(port)) for host, port in entry.get("hosts", ()))
        volatile = {
            str(stream): tuple(map(str, names))
            for stream, names in entry.get("volatile", {}).items()
        }
        interval = timedelta(minutes=int(entry.get("minutes", 5)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestError(
            f"fields, hosts, volatile or minutes cannot be read: {error!r}."
        ) from None
    return InstalledSource(
        name=text_member(entry, "name"),
        title=text_member(entry, "title"),
        label=text_member(entry, "label"),
        object_path=object_member(entry, package),
        folder=folder,
        declaration=declaration,
        connector_key=connector_key_of(declaration),
        fields=fields,
        hosts=hosts,
        container_title=str(entry.get("container_title") or ""),
        container_field=str(entry.get("container_field") or ""),
        volatile=volatile,
        dependents=tuple(map(str, entry.get("dependents") or ())),
        twin_prefix=str(entry.get("twin_prefix") or ""),
        interval=interval,
        has_deletions=bool(entry.get("has_deletions", True)),
        series_stream=str(entry.get("series_stream") or ""),
        signs_in=bool(entry.get("signs_in")),
        discovery=str(entry.get("discovery") or ""),
        companion=str(entry.get("companion") or ""),
    )


def _parse_field(entry: Any) -> SourceField:
    return SourceField(
        text_member(entry, "name"),
        text_member(entry, "label"),
        FieldKind(entry.get("kind", "text")),
        str(entry.get("hint") or ""),
        str(entry.get("default") or ""),
        bool(entry.get("is_optional")),
    )


def _require_unique(found: list[InstalledSource], others: list[InstalledSource]) -> None:
    """Refuse a name that is taken, and a declaration that would replace another one."""
    known = [(each.connector_key, each.declaration) for each in others]
    known += [(each.connector_key, each.declaration) for each in installed_importers()]
    for source in found:
        if source.name in {other.name for other in others}:
            raise ManifestError(f"the name {source.name} is taken.")
        if any(key == source.connector_key and text != source.declaration for key, text in known):
            raise ManifestError(f"connector_key {source.connector_key} is taken.")
