"""What every kind of export brings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from evidence.errors import InvalidRequest
from importers.core.export_files import Entry
from importers.core.results import Pieces

UTC_ZONE = ZoneInfo("UTC")
DATE_ORDERS = ("dmy", "mdy", "ymd")


@dataclass(frozen=True, slots=True)
class Options:
    """``zone`` is where times without a zone are read, ``horizon_year`` the last year in which
    repeating events are written out. ``columns`` maps ours to those of a CSV file."""

    zone: tzinfo = UTC_ZONE
    horizon_year: int = 2030
    date_order: str | None = None
    columns: dict[str, str] = field(default_factory=dict)


class ChoiceNeeded(InvalidRequest):
    """The export can be read in several ways, and only its owner knows which is right.

    ``evidence`` are the lines that leave it open, ``flag`` is what to say on the command line.
    """

    def __init__(self, question: str, *, evidence: list[str], flag: str) -> None:
        super().__init__(message=question, evidence=evidence, flag=flag)
        self.question = question
        self.evidence = evidence
        self.flag = flag


def zone_named(name: str) -> ZoneInfo:
    """Raises ``InvalidRequest`` for a zone that does not exist."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(
            message=f"{name!r} is no time zone; one is Europe/Berlin.", param="timezone"
        ) from None


DECLARATIONS = Path(__file__).parent.parent / "declarations"

Entries = Sequence[Entry]
Claim = Callable[[Entries], list[Entry]]
Reader = Callable[[Entries, Options], Pieces]
Preparer = Callable[[Entries, Options], Options]


def _as_it_is(entries: Entries, options: Options) -> Options:
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``claim`` takes its own out of the entries of an export, ``read`` makes pieces of them.

    ``prepare`` settles what the entries leave open before anything is written; it raises
    ``ChoiceNeeded``. ``source`` names the declaration, ``label`` the connection that records go to
    unless the owner names another. ``has_local_times``: some may be without a zone.
    """

    name: str
    title: str
    source: str
    label: str
    claim: Claim
    read: Reader
    prepare: Preparer = _as_it_is
    has_local_times: bool = False

    @property
    def declaration(self) -> bytes:
        return (DECLARATIONS / f"{self.source}.json").read_bytes()

    @property
    def connector_key(self) -> str:
        return f"imported-{self.source}"


def by_suffix(*suffixes: str) -> Claim:
    """Claims files by how their names end."""
    return lambda entries: [each for each in entries if each.suffix in suffixes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the owner said. ``connection`` is the name or id of one; ``columns`` and ``date_order``
    are remembered for the connection."""

    kind: str | None = None
    connection: str | None = None
    languages: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)


def wish_of(words: Mapping[str, str]) -> Wish:
    """``kind``, ``connection``, ``languages`` (en,de), ``timezone``, ``date_order`` and
    ``columns`` (date=Buchungstag, a line each); all may be missing. Raises ``InvalidRequest``."""
    order = words.get("date_order") or None
    if order is not None and order not in DATE_ORDERS:
        raise InvalidRequest(message=f"{order!r} is no order of dates.", param="date_order")
    languages = (each.strip() for each in words.get("languages", "").split(","))
    return Wish(
        kind=words.get("kind") or None,
        connection=words.get("connection", "").strip() or None,
        languages=tuple(filter(None, languages)),
        options=Options(
            zone=zone_named(words.get("timezone", "").strip() or "UTC"),
            date_order=order,
            columns=dict(_pair(line) for line in words.get("columns", "").splitlines() if line),
        ),
    )


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not equals:
        raise InvalidRequest(
            message=f"{text!r} is not OURS=THEIRS, such as date=Buchungstag.", param="columns"
        )
    return ours.strip(), theirs.strip()
