"""What a change would show more and hide, counted in the database through the gates themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence.access.counts import count
from evidence.access.describing import field_label, joined, stream_label
from evidence.access.gate import Gate
from evidence.access.rows import VisibleRecords
from evidence.consent.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of one stream: how many records come into sight and go out of it, and which fields."""

    source_pk: int
    stream: str
    label: str
    more: int
    fewer: int
    fields_more: tuple[str, ...]
    fields_fewer: tuple[str, ...]
    labels: dict[str, str]

    @property
    def is_none(self) -> bool:
        return not (self.more or self.fewer or self.fields_more or self.fields_fewer)

    @property
    def sentence(self) -> str:
        """``Your messages: hides 3 records and the field Body text.``"""
        said = [*self._said("exposes", "more ", self.more, self.fields_more)]
        said += [*self._said("hides", "", self.fewer, self.fields_fewer)]
        return f"{self.label}: {joined(said)}."

    def _said(self, verb: str, more: str, records: int, fields: tuple[str, ...]) -> Iterator[str]:
        parts = [counted(records, f"{more}record")] if records else []
        if fields:
            names = joined([self.labels[each] for each in fields])
            parts.append(f"the {'field' if len(fields) == 1 else 'fields'} {names}")
        if parts:
            yield f"{verb} {' and '.join(parts)}"


def differences(before: Sequence[Gate], after: Gate) -> list[Difference]:
    """Between what several grants show now, taken together, and what a change would show: the streams
    that differ. Two counts for each stream."""
    old: dict[tuple[int, str], list[VisibleRecords]] = {}
    for gate in before:
        for visible in gate.streams():
            old.setdefault(_key(visible), []).append(visible)
    new = {_key(visible): visible for visible in after.streams()}
    found = (_difference(old.get(key, []), new.get(key)) for key in {**old, **new})
    return [each for each in found if not each.is_none]


def gains(before: Sequence[Gate], after: Gate) -> list[Difference]:
    """Only what comes into sight, where nothing of what is held goes."""
    added = (
        Difference(
            source_pk=each.source_pk, stream=each.stream, label=each.label, labels=each.labels,
            more=each.more, fields_more=each.fields_more, fewer=0, fields_fewer=(),
        )
        for each in differences(before, after)
    )  # fmt: skip
    return [each for each in added if not each.is_none]


def _key(visible: VisibleRecords) -> tuple[int, str]:
    return visible.source.source_pk, visible.stream.name


def _difference(old: Sequence[VisibleRecords], new: VisibleRecords | None) -> Difference:
    some = new or old[0]
    was, becomes = {name for each in old for name in _fields(each)}, set(_fields(new))
    return Difference(
        source_pk=some.source.source_pk,
        stream=some.stream.name,
        label=stream_label(some.stream),
        more=0 if new is None else count(new, [each.beyond() for each in old]),
        fewer=_lost(old, new),
        fields_more=tuple(name for name in some.stream.fields if name in becomes - was),
        fields_fewer=tuple(name for name in some.stream.fields if name in was - becomes),
        labels={name: field_label(field) for name, field in some.stream.fields.items()},
    )


def _lost(old: Sequence[VisibleRecords], new: VisibleRecords | None) -> int:
    """Records of the old ones, each once, that are not among the new."""
    passed = [] if new is None else [new.beyond()]
    lost = 0
    for each in old:
        lost += count(each, passed)
        passed.append(each.beyond())
    return lost


def _fields(visible: VisibleRecords | None) -> Iterator[str]:
    """Those that at least one connection shows."""
    if visible is not None:
        for name in visible.stream.fields:
            if any(sight.terms.fields.allows(name) for sight in visible.sights):
                yield name
