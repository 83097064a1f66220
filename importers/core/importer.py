"""Define what an importer is, the options that it takes, and the error for a missing option."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import orjson

from evidence.errors import InvalidRequest
from importers.core.export_files import ExportFile, iter_items
from importers.core.results import ExportItems
from importers.core.text import to_utf8

T = TypeVar("T")
UTC_ZONE = ZoneInfo("UTC")
YEARS_BACK = 10
YEARS_AHEAD = 2
"""Recurring events are expanded from YEARS_BACK before the current year to YEARS_AHEAD after it.

These are whole calendar years, so that importing an export again in the same year writes nothing.
"""
DATE_ORDERS = ("dmy", "mdy", "ymd", "reiwa")
DECIMALS = {"comma": ",", "point": "."}
LEVELS = ("memory", "synthetic", "library", "real")
"""What an importer was tried with: nothing, made-up exports, another library, or real exports."""
SIGNS = ("as-written", "inverted")
"""Whether an amount without a minus sign arrives, or is a purchase with a card."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one import.

    Times without a zone are read in ``zone``. Recurring events are expanded from the start of
    ``first_year`` until the end of ``horizon_year``. Of bank statements, ``columns`` maps our field
    names to column names, ``decimal`` is the decimal separator, ``signs`` one of SIGNS, and
    ``account`` a name. ``remembered`` are earlier answers for the connection.

    An importer's ``prepare`` adds ``answers`` to remember, ``unclaimed`` files as (name, code,
    detail), and ``doubts``.
    """

    zone: tzinfo = UTC_ZONE
    horizon_year: int = 2030
    date_order: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    decimal: str | None = None
    signs: str | None = None
    account: str | None = None
    remembered: Mapping[str, Any] = field(default_factory=dict)
    series_keys: Sequence[str] = ()
    """First keys of each stored series of recurring events."""
    stored: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)
    """Fields of stored records by stream and key."""
    twins: str = ""
    """Digests of stored records that another format has brought, as base64."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    unclaimed: Sequence[Sequence[str]] = ()
    doubts: Sequence[Mapping[str, Any]] = ()
    """Questions to ask if the connection has the ``account`` but none of the ``keys``."""

    def to_json(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"zone": str(self.zone)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Options":
        """Raises ``TypeError`` for unknown names, ``InvalidRequest`` for an unknown time zone."""
        return cls(**{**values, "zone": parse_time_zone(values["zone"])})

    @property
    def current_year(self) -> int:
        return self.horizon_year - YEARS_AHEAD

    @property
    def first_year(self) -> int:
        """The first year in which recurring events are expanded."""
        return self.current_year - YEARS_BACK


class ChoiceNeeded(InvalidRequest):
    """The export is ambiguous, and only its owner knows which reading is right.

    ``evidence`` are ambiguous lines of the export; ``flag`` is the command line option that decides.
    """

    def __init__(self, question: str, *, evidence: list[str], flag: str) -> None:
        super().__init__(message=question, evidence=evidence, flag=flag)
        self.question = question
        self.evidence = evidence
        self.flag = flag


def parse_time_zone(name: str) -> ZoneInfo:
    """Return the time zone. Raises ``InvalidRequest`` for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(
            message=f"timezone takes a name such as Europe/Berlin; got {name!r}.", param="timezone"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSample:
    """The first rows of a file, by which the owner decides how it is read.

    ``columns`` maps our field names to names in the ``header``. ``readings`` has what a value of the
    file means, by option and the value of that option, such as date_order and dmy.
    """

    file: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    readings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    language: str = ""


ExportFiles = Sequence[ExportFile]
Claim = Callable[[ExportFiles], list[ExportFile]]
Reader = Callable[[ExportFiles, Options], ExportItems]


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Reads one format. Its name, title and declaration are in the ``importers.toml`` of its package.

    - ``claim`` returns the files that are in this format.
    - ``prepare`` completes the options before anything is written. Raises ``ChoiceNeeded``.
    - ``read`` yields the items of the claimed files.
    - ``sample`` returns samples of files whose reading the owner may have to decide.
    """

    claim: Claim
    read: Reader
    prepare: Callable[[ExportFiles, Options], Options] = lambda _files, options: options
    sample: Callable[[ExportFiles, Options], Sequence[FileSample]] = lambda _files, _options: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What the server knows about an importer or a live source without importing its code.

    ``label`` is the default name of its connection. ``object_path`` is the ``Importer`` or ``Source``,
    such as ``pdpp_mood.importer:MOOD``, and ``folder`` the folder of its top-level package. It gets
    the first keys of each series of ``series_stream``. Records whose keys begin with ``twin_prefix``
    are those of another format.
    """

    name: str
    title: str
    label: str
    object_path: str
    folder: Path
    declaration: bytes
    connector_key: str
    series_stream: str = ""
    twin_prefix: str = ""

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.object_path.partition(":")[0].partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledImporter(Installed):
    """An importer; ``name`` is the value of ``--as``.

    - ``level`` is one of LEVELS, and ``proof`` says in words on what the importer rests.
    - ``stored_fields``: importers get these fields of all records by stream, and the answers that
      ``prepare`` alone chose to remember.
    - ``twin_fields``: importers get a digest of these fields of each record of a stream whose key
      begins with ``twin_prefix``. The declaration says by which fields records are the same.
    - ``has_local_times``: some times of this format have no zone.
    """

    level: str = ""
    proof: str = ""
    stored_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    twin_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_local_times: bool = False

    @property
    def time_fields(self) -> dict[str, str]:
        """The field by stream that says when something was; empty for an invalid declaration."""
        try:
            streams = orjson.loads(self.declaration)["streams"]
            named = {each["name"]: each.get("consent_time_field") for each in streams}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}
        return {stream: field for stream, field in named.items() if field}


def detect_or_answer(
    name: str, detect: Callable[..., T], options: Options, layout: str, used: dict[str, Any]
) -> T:
    """Return what an export shows, or else what the owner answered, which is added to ``used``.

    ``detect`` gets the answer as ``chosen``, which may be remembered for the ``layout``. Raises
    ``ChoiceNeeded``.
    """
    try:
        return detect(chosen=None)
    except ChoiceNeeded:
        remembered = options.remembered.get(layout) or {}
        answer = getattr(options, name) or remembered.get(name)
        result = detect(chosen=answer)
        used[name] = answer
        return result


def claim_each(is_known: Callable[[ExportFile], object]) -> Claim:
    """Return a function that claims the files for which ``is_known`` is true."""
    return lambda files: [file for file in files if is_known(file)]


def claim_by_suffix(*suffixes: str) -> Claim:
    """Return a function that claims the files with these suffixes."""
    return claim_each(lambda file: file.suffix in suffixes)


def claim_by_start(start: bytes, *suffixes: str) -> Claim:
    """Return a function that also claims files whose text begins with ``start`` in upper case."""
    return claim_each(
        lambda file: (
            file.suffix in suffixes
            or to_utf8(file.head[:200]).lstrip()[: len(start)].upper() == start
        )
    )


def read_each(read: Callable[[ExportFile], ExportItems]) -> Reader:
    """Return a function that reads one file after another, see ``iter_items``."""
    return lambda files, _options: iter_items(files, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What the owner asked to import.

    ``kind`` is the name of an importer, ``connection`` the name or id of a connection.
    """

    kind: str | None = None
    connection: str | None = None
    languages: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)


def parse_import_request(values: Mapping[str, str]) -> ImportRequest:
    """Parse the values of a form or command line. Raises ``InvalidRequest``.

    All keys are optional: ``kind``, ``connection``, ``languages`` (en,de), ``timezone``,
    ``date_order``, ``decimal`` (comma or point), ``signs``, ``account``, and ``columns`` (lines such
    as date=Buchungstag).
    """
    date_order = _parse_choice(values, "date_order", DATE_ORDERS)
    decimal = _parse_choice(values, "decimal", tuple(DECIMALS))
    languages = (language.strip() for language in values.get("languages", "").split(","))
    return ImportRequest(
        kind=values.get("kind") or None,
        connection=values.get("connection", "").strip() or None,
        languages=tuple(filter(None, languages)),
        options=Options(
            zone=parse_time_zone(values.get("timezone", "").strip() or "UTC"),
            date_order=date_order,
            decimal=DECIMALS[decimal] if decimal else None,
            signs=_parse_choice(values, "signs", SIGNS),
            account=values.get("account", "").strip() or None,
            columns=dict(
                _parse_column(line) for line in values.get("columns", "").splitlines() if line
            ),
        ),
    )


def _parse_choice(values: Mapping[str, str], name: str, choices: Sequence[str]) -> str | None:
    value = values.get(name) or None
    if value is not None and value not in choices:
        raise InvalidRequest(
            message=f"{name} takes {', '.join(choices)}; got {value!r}.", param=name
        )
    return value


def _parse_column(text: str) -> tuple[str, str]:
    field_name, equals, column = text.partition("=")
    if not equals:
        raise InvalidRequest(
            message=f"columns takes lines such as date=Buchungstag; got {text!r}.", param="columns"
        )
    return field_name.strip(), column.strip()


EXTRA_PACKAGE = "pdpp_importers_extra"

_KINDS = tuple((title, re.compile(name, re.I), re.compile(head, re.S)) for title, name, head in (
    ("Outlook", r"\.(?:msg|pst|ost)$", rb"\xd0\xcf\x11\xe0|!BDN"),
    ("FIT", "", rb".{8}\.FIT"),
    ("Apple Health", r"\.xml$", rb".*<HealthData"),
    ("browser history", r"(?:^|/)(?:History|places\.sqlite|History\.db)$", rb"SQLite format 3"),
    ("browser history", "",
     rb"SQLite format 3.*CREATE TABLE (?:urls|visits|moz_places|history_items)\b"),
    ("Google Chat", r"(?:^|/)Google Chat/", b""),
    ("Google Tasks", r"\.json$", rb'.*"tasks#taskLists"'),
    ("Facebook or Instagram",
     r"(?:^|/)(?:your_(?:facebook|instagram)_activity|friends_and_followers"
     r"|(?:connections/)?followers_and_following|comments_and_reactions|likes_and_reactions"
     r"|posts/your_posts|content/posts_)", b""),
    ("Facebook or Instagram", r"\.json$",
     rb'(?=.*"(?:participants|participant_name)")(?=.*"(?:timestamp_ms|threadName)")'),
    ("X", r"(?:^|/)(?:tweets?|community_tweet|direct_messages\w*)_media/", b""),
    ("X", r"\.js$", rb"\s*(?:\xef\xbb\xbf)?\s*window\.(?:YTD|__THAR_CONFIG)"),
    ("LinkedIn", r"\.csv$",
     rb"(?=.*First Name,Last Name,).*Connected On|.*Company Name,Title,Description,|.*CONVERSATION ID,"),
    ("Spotify", r"\.json$", rb'.*"(?:ms_played|msPlayed)"'),
    ("Netflix", r"\.csv$", rb".{0,8}Profile Name.{0,3}Start Time"),
    ("Netflix", r"(?:netflix|viewing).*\.csv$", rb".{0,8}Title.{0,3}Date"),
    ("Amazon", r"\.csv$", rb"(?=.*Order ID)(?=.*ASIN)(?=.*Product Name)"),
))  # fmt: skip


def extra_kind(file: ExportFile) -> str | None:
    """Return what a file is that only the extra package reads, such as "Spotify"."""
    path = f"{file.export}/{file.name}"
    for title, name, head in _KINDS:
        if name.search(path) and head.match(file.head):
            return title
    return None
