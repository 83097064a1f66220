"""What can be wrong with a declaration document, and the means to say where.

A check never stops at the first fault: it is given a `Spot`, reports to the document's list through
it, and goes on with whatever is still well formed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple

FAULTS_KEPT: Final = 1_000
"""A document with more faults than these is not described further."""
NAME_SHOWN: Final = 128
"""How much of a member name a path repeats."""

_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class FaultCode(StrEnum):
    """The codes of contract 5.1, then our own."""

    DUPLICATE_EXPAND_NAME = "source.declaration.duplicate_expand_name"
    DUPLICATE_PRESET_ID = "source.declaration.duplicate_preset_id"
    DUPLICATE_PRESET_STREAM_NAME = "source.declaration.duplicate_preset_stream_name"
    DUPLICATE_RELATIONSHIP_NAME = "source.declaration.duplicate_relationship_name"
    DUPLICATE_STREAM_NAME = "source.declaration.duplicate_stream_name"
    DUPLICATE_VIEW_ID = "source.declaration.duplicate_view_id"
    INVALID_EXPAND_LIMITS = "source.declaration.invalid_expand_limits"
    INVALID_QUERY_FIELD_TYPE = "source.declaration.invalid_query_field_type"
    NONLOCAL_SCHEMA_REFERENCE = "source.declaration.nonlocal_schema_reference"
    UNKNOWN_RELATIONSHIP = "source.declaration.unknown_relationship"
    UNKNOWN_SCHEMA_FIELD = "source.declaration.unknown_schema_field"
    UNKNOWN_STREAM = "source.declaration.unknown_stream"
    UNKNOWN_VIEW = "source.declaration.unknown_view"

    CONFLICTING_MEMBERS = "source.declaration.conflicting_members"
    DUPLICATE_VALUE = "source.declaration.duplicate_value"
    INVALID_FIELD_TYPE = "source.declaration.invalid_field_type"
    INVALID_MEMBER_TYPE = "source.declaration.invalid_member_type"
    INVALID_MEMBER_VALUE = "source.declaration.invalid_member_value"
    INVALID_NAME = "source.declaration.invalid_name"
    INVALID_SCHEMA = "source.declaration.invalid_schema"
    INVALID_TEXT = "source.declaration.invalid_text"
    MISSING_MEMBER = "source.declaration.missing_member"
    SCHEMA_TOO_COMPLEX = "source.declaration.schema_too_complex"
    TOO_DEEP = "source.declaration.too_deep"
    TOO_LARGE = "source.declaration.too_large"
    TOO_MANY = "source.declaration.too_many"
    UNKNOWN_MEMBER = "source.declaration.unknown_member"
    UNSUPPORTED_DIALECT = "source.declaration.unsupported_dialect"
    UNSUPPORTED_VERSION = "source.declaration.unsupported_version"


class Fault(NamedTuple):
    """`path` is a JSON path from the document, such as `$.streams[0].query.range_filters.size`."""

    code: FaultCode
    path: str
    message: str


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


def step(path: str, *, to: str | int) -> str:
    """`path`, one member or item further. Always ASCII, whatever the name."""
    if isinstance(to, int):
        return f"{path}[{to}]"
    name = to if len(to) <= NAME_SHOWN else f"{to[:NAME_SHOWN]}…"
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}[{json.dumps(name)}]"


@dataclass(frozen=True, slots=True)
class Spot:
    """A value of the document, where it stands, and the faults found so far."""

    value: object
    path: str = "$"
    faults: list[Fault] = field(default_factory=list)

    def report(self, code: FaultCode, message: str) -> None:
        """Keep a fault of this spot."""
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(Fault(code, self.path, message))

    @property
    def present(self) -> bool:
        """Whether the document says anything here."""
        return self.value is not MISSING

    def member(self, name: str) -> "Spot":
        """A member of this object; absent where it is missing or this is no object."""
        node = self.value
        value = node.get(name, MISSING) if isinstance(node, Mapping) else MISSING
        return Spot(value, step(self.path, to=name), self.faults)

    def members(self) -> Iterator[tuple[str, "Spot"]]:
        """Every member of this object, which `mapping` has checked."""
        if isinstance(self.value, Mapping):
            for name in self.value:
                yield name, self.member(name)

    def items(self) -> Iterator["Spot"]:
        """Every item of this list, which `sequence` has checked."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield Spot(value, step(self.path, to=index), self.faults)

    def mapping(self, *, required: bool = False) -> bool:
        """Whether this is an object."""
        return self._is(Mapping, "an object", required=required)

    def sequence(self, *, required: bool = False, least: int = 0) -> bool:
        """Whether this is a list of at least `least` items."""
        if not self._is(list, "a list", required=required):
            return False
        if isinstance(self.value, list) and len(self.value) < least:
            self.report(FaultCode.INVALID_MEMBER_VALUE, f"Must have at least {least} item.")
            return False
        return True

    def text(self, *, required: bool = False, most: int = 4_096) -> str | None:
        """The non-empty string here, of at most `most` characters."""
        if not self._is(str, "a string", required=required) or not isinstance(self.value, str):
            return None
        if 0 < len(self.value) <= most:
            return self.value
        self.report(FaultCode.INVALID_MEMBER_VALUE, f"Must have 1 to {most} characters.")
        return None

    def choice(self, options: Sequence[str], *, required: bool = False) -> str | None:
        """The string here, one of `options`."""
        value = self.text(required=required)
        if value is None or value in options:
            return value
        self.report(FaultCode.INVALID_MEMBER_VALUE, f"Must be one of {', '.join(options)}.")
        return None

    def flag(self, *, required: bool = False) -> None:
        """Report unless this is a boolean."""
        self._is(bool, "true or false", required=required)

    def count(self) -> int | None:
        """The whole number here, from 1."""
        value = self.value
        if value is MISSING:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self.report(FaultCode.INVALID_MEMBER_TYPE, "Must be a whole number from 1.")
        return None

    def texts(self, *, required: bool = False, least: int = 0) -> list[tuple["Spot", str]]:
        """The strings of this list, each with its spot; repeated ones are reported."""
        if not self.sequence(required=required, least=least):
            return []
        found: dict[str, Spot] = {}
        for spot in self.items():
            text = spot.text(required=True)
            if text in found:
                spot.report(FaultCode.DUPLICATE_VALUE, "Is already in the list.")
            elif text is not None:
                found[text] = spot
        return [(spot, text) for text, spot in found.items()]

    def known(self, names: Sequence[str]) -> None:
        """Report every member whose name is not one of `names`."""
        for name, spot in self.members():
            if name not in names:
                spot.report(FaultCode.UNKNOWN_MEMBER, "Is not a member of this object.")

    def _is(self, kind: type, wording: str, *, required: bool) -> bool:
        if self.value is MISSING:
            if required:
                self.report(FaultCode.MISSING_MEMBER, f"Is missing; must be {wording}.")
            return False
        if isinstance(self.value, kind):
            return True
        self.report(FaultCode.INVALID_MEMBER_TYPE, f"Must be {wording}.")
        return False
