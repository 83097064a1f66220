"""Stream what is in JSON, CSV, XML, iCalendar, vCard and SQLite files, and know its keys, in bounded memory.

JSON has any shape and size: values of the wrong type are treated as missing. A database is read from a
private copy that includes its write-ahead log.
"""

import binascii
import codecs
import csv
import io
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from errno import EIO
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple, TypeVar, cast
from xml.parsers import expat

import ijson

from importers.core.export_files import HEAD_BYTES, ExportFile
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import decode, one_line, replace_unstorable, to_utf8

Json = Mapping[str, Any]
ParseNode = Callable[[Json], ParsedItem]

_ASSIGNMENT = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*(?:window\.[\w.]{1,200}\s*=\s*)?")
"""What may precede JSON in a file: a byte order mark, or the assignment of a script."""


def json_object(node: Json, name: str) -> Json:
    """Return a member that is an object, and an empty object for any other value."""
    member = node.get(name)
    return member if isinstance(member, dict) else {}


def json_objects(node: Json, name: str) -> list[Json]:
    """Return the objects of a member that is a list."""
    member = node.get(name)
    return [item for item in member if isinstance(item, dict)] if isinstance(member, list) else []


def json_line(node: Json, *names: str) -> str | None:
    """Return the first of these members that is a text with visible characters, as one line."""
    for name in names:
        if isinstance(value := node.get(name), str) and (line := one_line(value)):
            return line
    return None


def json_text(node: Json, *names: str) -> str:
    """Return the first of these members that is a text, or an empty text."""
    texts = (value for name in names if isinstance(value := node.get(name), str) and value.strip())
    return replace_unstorable(next(texts, ""))


def json_integer(node: Json, name: str) -> int | None:
    """Return a whole number that is not negative, also one that is written as text."""
    value = node.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return cast("int", value) if is_number and 0 <= cast("int", value) < 2**63 else None


@contextmanager
def open_json(file: ExportFile) -> Iterator[IO[bytes]]:
    """Open a file behind a byte order mark or the assignment of a script."""
    with file.open() as stream:
        yield cast("IO[bytes]", _JsonStream(stream))


class _JsonStream:
    """A stream without what precedes the JSON."""

    def __init__(self, stream: IO[bytes]) -> None:
        head = stream.read(HEAD_BYTES)
        match = _ASSIGNMENT.match(head)
        self._head = head[match.end() :] if match else head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        if head and size >= 0:
            self._head = head[size:]
            return head[:size]
        return head + self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell() - len(self._head)


def iter_nodes(file: ExportFile, prefixes: tuple[str, ...]) -> Iterator[tuple[Any, int, str]]:
    """Yield each value at one of these prefixes, its size in bytes, and its prefix.

    Raises ``UnreadableError`` at damage, and for a file without such a value.
    """
    position, is_known = 0, False
    parents = {prefix.rpartition(".")[0] for prefix in prefixes}
    with open_json(file) as stream:
        for prefix, event, value in iter_json_events(stream, is_item=prefixes.__contains__):
            if event == ITEM:
                size, position = max(0, stream.tell() - position), max(position, stream.tell())
                yield value, size, prefix
            is_known = is_known or event == ITEM or (event == "start_array" and prefix in parents)
    if not is_known:
        raise UnreadableError(ReceiptCode.MALFORMED)


def parse_node(node: Any, parse: ParseNode) -> ParsedItem:
    """Raises ``UnreadableError`` for a value that is no object."""
    if not isinstance(node, dict):
        raise UnreadableError(ReceiptCode.MALFORMED)
    return parse(node)


def head_has(file: ExportFile, *members: bytes) -> bool:
    """Return whether a JSON file begins with an object or array that has these member names."""
    head = file.head
    match = _ASSIGNMENT.match(head)
    start = head[match.end() :][:1] if match else b""
    return start in (b"{", b"[") and all(b'"%s"' % member in head for member in members)


ITEM = "item"
JSON_ITEM_MAX_BYTES = 8 * 1024 * 1024
"""A parsed item takes up to twenty times as much memory."""
JSON_MAX_DEPTH = 50
_STARTS = frozenset({"start_map", "start_array"})
_ENDS = frozenset({"end_map", "end_array"})
_INCOMPLETE = _STARTS | {"map_key"}

Event = tuple[str, str, Any]


def iter_json_events(stream: IO[bytes], *, is_item: Callable[[str], bool]) -> Iterator[Event]:
    """Yield (prefix, ITEM, value) for values whose prefix ``is_item``, and other events of ijson.

    Raises ``UnreadableError`` at damage, and for an item that is too large or nested too deeply.
    """
    limited, item_prefix = _LimitedStream(stream), ""
    builder: ijson.ObjectBuilder | None = None
    try:
        for prefix, event, value in ijson.parse(_limit_depth(ijson.basic_parse(limited))):
            if builder is None:
                if not is_item(prefix) or event in _ENDS:
                    limited.start_item()
                    yield prefix, event, value
                    continue
                builder, item_prefix = ijson.ObjectBuilder(), prefix
            builder.event(event, value)
            if prefix == item_prefix and event not in _INCOMPLETE:
                limited.start_item()
                yield prefix, ITEM, builder.value
                builder = None
    except ijson.JSONError as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error


def iter_json_items(stream: IO[bytes], *, prefix: str) -> Iterator[tuple[Any, int]]:
    """Yield each value at this prefix with its size in bytes. Raises as ``iter_json_events``."""
    position = 0
    for _, event, value in iter_json_events(stream, is_item=prefix.__eq__):
        if event == ITEM:
            size, position = max(0, stream.tell() - position), max(position, stream.tell())
            yield value, size


class _LimitedStream:
    """Limits how many bytes are read for one item."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._item_bytes = 0

    def start_item(self) -> None:
        self._item_bytes = 0

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._item_bytes += len(block)
        if self._item_bytes > JSON_ITEM_MAX_BYTES:
            raise UnreadableError(ReceiptCode.TOO_LARGE)
        return block


def _limit_depth(events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Limit nesting before ijson.parse keeps the path of every level in memory."""
    depth = 0
    for event in events:
        if event[0] in _STARTS:
            depth += 1
            if depth > JSON_MAX_DEPTH:
                raise UnreadableError(ReceiptCode.MALFORMED, detail="nested too deeply")
        elif event[0] in _ENDS:
            depth -= 1
        yield event


DECODED_MAX_BYTES = 16 * 1024 * 1024
"""Larger files are read as UTF-8, line by line."""
LINE_MAX_CHARS = 1024 * 1024
_HEADER_MAX_LINES = 20
_DELIMITERS = ",;\t"

Row = dict[str, str]
ParseRow = Callable[[Row], ParsedItem]


def find_header(file: ExportFile, *columns: str) -> int | None:
    """Return the number of the first line that has all these columns, counted from 0."""
    wanted = {column.lower() for column in columns}
    lines = to_utf8(file.head).decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    for number, line in enumerate(lines[:_HEADER_MAX_LINES]):
        if wanted <= {cell.strip().lower() for cell in _cells(line)}:
            return number
    return None


def _cells(line: str) -> list[str]:
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def iter_rows(file: ExportFile, *, header: int = 0) -> Iterator[tuple[int, Row]]:
    """Yield the line number and the cells of each row, by column name in lower case.

    More cells than columns are under an empty name. Raises ``UnreadableError`` for a row that is too
    long, such as one with a quote that never ends.
    """
    with file.open() as stream:
        if file.size <= DECODED_MAX_BYTES:
            text: io.TextIOBase = io.StringIO(decode(stream.read(DECODED_MAX_BYTES)), newline="")
        else:
            text = io.TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
        lines = _lines(text)
        names_line = next(islice(lines, header, None), None)
        if names_line is None:
            return
        names = [name.strip().strip("\ufeff").lower() for name in _cells(names_line)]
        reader = csv.reader(lines, delimiter=max(_DELIMITERS, key=names_line.count))
        line = header + 2
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    row = dict(zip(names, cells, strict=False))
                    rest = "".join(cells[len(names) :]).strip()
                    yield line, row | {"": rest} if rest else row
                line = header + 2 + reader.line_num
        except csv.Error as error:
            detail = f"line {line:,}: {error}"[:80]
            raise UnreadableError(ReceiptCode.DAMAGED, detail=detail) from error


def _lines(text: io.TextIOBase) -> Iterator[str]:
    while line := text.readline(LINE_MAX_CHARS):
        if len(line) >= LINE_MAX_CHARS:
            raise UnreadableError(ReceiptCode.TOO_LARGE)
        yield replace_unstorable(line)


def read_rows(file: ExportFile, parse: ParseRow, *, header: int = 0) -> ExportItems:
    """Yield an item for each row. Raises as ``iter_rows``."""
    for line, row in iter_rows(file, header=header):
        size = sum(map(len, row.values()))
        yield ExportItem(file.name, f"line {line:,}", size, partial(_parse_row, row, parse))


def _parse_row(row: Row, parse: ParseRow) -> ParsedItem:
    """Raises ``UnreadableError`` for a row with more cells than columns."""
    if row.get(""):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=row[""][:80])
    return parse(row)


T = TypeVar("T")


FILE_MAX_BYTES = 128 * 1024 * 1024
COMPONENT_MAX_BYTES = 1024 * 1024
COMPONENT_MAX_LINES = 20_000


class Component(NamedTuple):
    """A component of an iCalendar or vCard file.

    ``line`` counts from 1. ``text`` has no content of embedded media, and is None where it is too long.
    """

    name: str
    line: int
    text: bytes | None
    size: int


_BEGIN = re.compile(rb"^BEGIN:([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_EMBEDDED_MEDIA = re.compile(
    rb"^(?:(?:[\w-]+\.)?(?:PHOTO|LOGO|SOUND|KEY)|(ATTACH))[;:][^\n]*\n(?:[ \t][^\n]*\n)*",
    re.MULTILINE | re.IGNORECASE,
)
_ATTACHED_FILE = re.compile(
    rb"""(ATTACH(?=;.*[=;](?:BASE64|BINARY)[;:]|:data:)(?:;(?:"[^"]*"|[^":])*)?:)""", re.IGNORECASE
)
_QUOTED_PRINTABLE = re.compile(
    rb"^([\w-]++)(?=[^:\n]*?;(?:ENCODING=)?QUOTED-PRINTABLE[;:])([^:\n]*+):"
    rb"([^\n]*(?:\n(?:(?<==\n)|(?<==\r\n)|(?=[ \t]))[^\n]*)*)",
    re.MULTILINE | re.IGNORECASE,
)
_CHARSET = re.compile(rb";CHARSET=\"?([\w.:-]+)", re.IGNORECASE)
_FOLD = re.compile(rb"\r?\n[ \t]")


def iter_components(content: bytes, *, names: frozenset[str]) -> Iterator[Component]:
    """Yield the outermost components with these names.

    A component without an END ends where the next one of its name begins.
    """
    position = line = line_position = 0
    while begin := _BEGIN.search(content, position):
        name = begin[1].decode("ascii").upper()
        position = begin.end()
        if name not in names:
            continue
        end = _component_end(content, name, position)
        line += content.count(b"\n", line_position, begin.start())
        line_position = begin.start()
        text = _EMBEDDED_MEDIA.sub(_without_media, content[begin.start() : end])
        is_short = len(text) <= COMPONENT_MAX_BYTES and text.count(b"\n") <= COMPONENT_MAX_LINES
        yield Component(name, line + 1, text if is_short else None, end - begin.start())
        position = end


def _without_media(found: re.Match[bytes]) -> bytes:
    """Return nothing for media, and for an attached file its property without a value."""
    if found[1] is None:
        return b""
    attached = _ATTACHED_FILE.match(unfold(found[0]))
    return attached[1] + b"\n" if attached else found[0]


def _component_end(content: bytes, name: str, position: int) -> int:
    pattern = rb"^(BEGIN|END):" + name.encode() + rb"[ \t]*\r?$"
    match = re.compile(pattern, re.MULTILINE | re.IGNORECASE).search(content, position)
    if match is None:
        return len(content)
    return match.start() if match[1].upper() == b"BEGIN" else match.end()


def close_component(text: str, name: str) -> str:
    """Add the END that is missing from a truncated component."""
    text = text.rstrip()
    return text if text.upper().endswith(f"END:{name}") else f"{text}\r\nEND:{name}"


def unfold(text: bytes) -> bytes:
    """Join the lines of each property; programs fold them also within a character."""
    return _FOLD.sub(b"", text)


def decode_quoted_printable(text: bytes) -> bytes:
    """Decode the values of vCalendar 1.0 that are quoted-printable, in their own charset."""
    return _QUOTED_PRINTABLE.sub(_decoded_property, text)


def _decoded_property(match: re.Match[bytes]) -> bytes:
    charset = _CHARSET.search(match[2])
    content = binascii.a2b_qp(unfold(re.sub(rb"=\r?\n", b"", match[3])))
    lines = decode(content, charset[1].decode() if charset else None).splitlines()
    return match[1] + b":" + "\\n".join(lines).encode() + b"\n"


def folded_to_utf8(content: bytes) -> bytes:
    """Return iCalendar or vCard text in any charset as UTF-8 with line feeds."""
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        unfold(content).decode()
    except UnicodeDecodeError:
        return to_utf8(content)
    return content if b"\0" not in content else to_utf8(content)


def property_value(text: bytes, name: str) -> str | None:
    """Return the value of the first property of this name, unfolded and without parameters."""
    match = re.search(
        rb"^" + name.encode() + rb"(?:;[^:\r\n]*)?:(.*?)\r?$",
        unfold(text),
        re.MULTILINE | re.IGNORECASE,
    )
    return match[1].decode("utf-8", "replace").strip() if match else None


READ_SIZE = 256 * 1024
_DOCTYPE_MAX_BYTES = 1024 * 1024
ELEMENT_MAX_BYTES = 1024 * 1024
ELEMENT_MAX_DEPTH = 100
_MAX_CHILDREN = 1000
_INTERNAL_SUBSET_END = re.compile(rb"\]\s*>")


class XmlElement(NamedTuple):
    """An element with the names and attributes of its children. ``size`` is in bytes."""

    name: str
    attributes: dict[str, str]
    children: list[tuple[str, dict[str, str]]]
    line: int
    size: int


class _ElementCollector:
    """Collects the outermost elements with these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self.elements: list[XmlElement] = []
        self._names = names
        self._open: XmlElement | None = None
        self._depth_in_element = self._depth = self._bytes_fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, block: bytes, is_last: bool, /) -> None:  # noqa: FBT001 - as expat has it
        """Parse a block. Raises ``UnreadableError`` when an element or token is too large.

        expat keeps an incomplete token in memory and parses it again with each block.
        """
        self._bytes_fed += len(block)
        self._parser.Parse(block, is_last)
        # An open element holds its start position in ``size``.
        start = self._parser.CurrentByteIndex if self._open is None else self._open.size
        if self._bytes_fed - start > ELEMENT_MAX_BYTES + READ_SIZE and not is_last:
            raise UnreadableError(ReceiptCode.TOO_LARGE)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > ELEMENT_MAX_DEPTH:
            raise UnreadableError(ReceiptCode.MALFORMED, detail="nested too deeply")
        if self._open is not None:
            self._depth_in_element += 1
            if self._depth_in_element == 1 and len(self._open.children) < _MAX_CHILDREN:
                self._open.children.append((name, attributes))
        elif name in self._names:
            position, line = self._parser.CurrentByteIndex, self._parser.CurrentLineNumber
            self._open = XmlElement(name, attributes, [], line, position)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._open is None:
            return
        if self._depth_in_element:
            self._depth_in_element -= 1
            return
        size = self._parser.CurrentByteIndex - self._open.size
        self.elements.append(self._open._replace(size=size))
        self._open = None


def remove_doctype(head: bytes) -> bytes:
    """Remove the document type, with its entities, but keep its line breaks."""
    start = head.find(b"<!DOCTYPE")
    subset, end = head.find(b"[", start), head.find(b">", start)
    if 0 <= subset < end and (match := _INTERNAL_SUBSET_END.search(head, subset)):
        end = match.end() - 1
    if start < 0 or end < 0:
        return head
    return head[:start] + b"\n" * head.count(b"\n", start, end) + head[end + 1 :]


def iter_elements(stream: IO[bytes], *, names: frozenset[str]) -> Iterator[XmlElement]:
    """Yield the elements with these names.

    Raises ``UnreadableError`` at damage, after the elements before it.
    """
    collector = _ElementCollector(names)
    return iter_collected(stream, collector.feed, collector.elements)


def iter_collected(
    stream: IO[bytes], parse: Callable[[bytes, bool], object], found: list[T]
) -> Iterator[T]:
    """Yield what ``parse`` adds to ``found`` from each block; its flag marks the last block.

    Raises ``UnreadableError`` at damage, after what was found before it.
    """
    block = remove_doctype(stream.read(_DOCTYPE_MAX_BYTES))
    while True:
        next_block = stream.read(READ_SIZE)
        failure: UnreadableError | None = None
        try:
            parse(block, not next_block)
        except expat.ExpatError as error:
            failure = UnreadableError(ReceiptCode.DAMAGED, detail=str(error))
        except UnreadableError as error:
            failure = error
        yield from found
        found.clear()
        if failure is not None:
            raise failure
        if not next_block:
            return
        block = next_block


MAGIC = b"SQLite format 3\0"
DATABASE_MAX_BYTES = 2 * 1000 * 1000 * 1000
_SCHEMA_BYTES = 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_LOGS = ("-wal", "-shm", "-journal")
_VALUE_MAX_BYTES = 16 * 1024 * 1024


def claim_databases(
    files: Sequence[ExportFile], *, names: Sequence[str], tables: Sequence[str]
) -> list[ExportFile]:
    """Return the databases with these names or tables, and their logs."""
    wanted = [table.encode() for table in tables]
    found = [
        file
        for file in files
        if file.head.startswith(MAGIC) and (file.path.name in names or _has_all(file, wanted))
    ]
    bases = {file.name for file in found}
    logs = (file for file in files for log in _LOGS if file.name.removesuffix(log) in bases)
    return [*found, *(log for log in logs if log not in found)]


def _has_all(file: ExportFile, tables: Sequence[bytes]) -> bool:
    if all(table in file.head for table in tables):
        return True
    try:
        with file.open() as stream:
            start = stream.read(_SCHEMA_BYTES)
    except UnreadableError:
        return False
    return all(table in start for table in tables)


def databases(files: Sequence[ExportFile]) -> list[ExportFile]:
    """Return the claimed files that are no logs."""
    return [file for file in files if not file.name.endswith(_LOGS)]


@contextmanager
def open_database(file: ExportFile, files: Sequence[ExportFile]) -> Iterator["Database"]:
    """Open a copy of a database. Raises ``UnreadableError``, also while its rows are read."""
    with tempfile.TemporaryDirectory() as folder:
        path, size = Path(folder, "copy.db"), _copy(file, Path(folder, "copy.db"))
        logs = [each for each in files if each.name == f"{file.name}-wal" and each.size]
        for log in logs:
            size += _copy(log, Path(folder, "copy.db-wal"))
        mode = "" if logs else "?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(f"file:{path}{mode}", uri=True)) as connection:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX_BYTES)
                connection.text_factory = lambda content: content.decode("utf-8", "replace")
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                yield Database(connection, size)
        except sqlite3.Error as error:
            raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error


def _copy(file: ExportFile, path: Path) -> int:
    size = 0
    with file.open() as source, path.open("wb") as target:
        while block := source.read(_BLOCK_BYTES):
            size += len(block)
            if size > DATABASE_MAX_BYTES:
                raise UnreadableError(ReceiptCode.TOO_LARGE)
            target.write(block)
    return size


class Database:
    """An open database; ``size`` is in bytes."""

    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self.size = size

    def columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", [table])
        return {row["name"] for row in rows}

    def select(self, sql: str) -> Iterator[sqlite3.Row]:
        # "yield from" would close the cursor, which fails if the database is closed before it.
        for row in self._connection.execute(sql):  # noqa: UP028
            yield row

    def select_known(self, table: str, names: Sequence[str], rest: str) -> Iterator[sqlite3.Row]:
        """Select columns of a table, which is called t in ``rest``; unknown ones are null."""
        known = self.columns(table)
        columns = ", ".join(f"t.{name}" if name in known else f"NULL AS {name}" for name in names)
        yield from self.select(f"SELECT {columns} {rest}")


KEYS_CACHE_KIB = 32 * 1024


class KeySet:
    """Which of very many keys occurred, in a database on disk with a small cache. Thread-safe.

    It has 64-bit hashes. Among ten million keys, the probability of any collision is one in 400,000;
    in a collision the second record would count as a duplicate. A ``path`` keeps the keys for a run
    that resumes. Methods raise ``OSError`` where the disk fails.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        self._database = sqlite3.connect(path or "", isolation_level=None, check_same_thread=False)
        for statement in (
            f"PRAGMA cache_size = -{KEYS_CACHE_KIB}",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE IF NOT EXISTS keys (hash INTEGER PRIMARY KEY, item INTEGER)",
            "BEGIN",
        ):
            self._execute(statement)

    @classmethod
    def load(cls, path: Path, *, items: int) -> "KeySet | None":
        """Return the keys of the first ``items``, or None if the file lacks some."""
        try:
            seen = cls(path)
            (complete,) = seen._database.execute("PRAGMA user_version").fetchone()
            seen._database.execute("DELETE FROM keys WHERE item >= ?", [items])
        except (OSError, sqlite3.Error):
            return None
        return seen if complete >= items else None

    @staticmethod
    def remove(path: Path) -> None:
        for each in (path, path.with_name(f"{path.name}-journal")):
            each.unlink(missing_ok=True)

    def add(self, key: str, *, item: int = 0) -> bool:
        """Add a key of an item, and return whether it is new."""
        digest = blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
        hashed = int.from_bytes(digest, "big", signed=True)
        return self._execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", hashed, item).rowcount == 1

    def save(self, *, items: int) -> None:
        """Write the keys to the file, which then has all keys of the first ``items``."""
        for statement in (f"PRAGMA user_version = {items}", "COMMIT", "BEGIN"):
            self._execute(statement)

    def _execute(self, statement: str, *parameters: int) -> sqlite3.Cursor:
        try:
            with self._lock:
                return self._database.execute(statement, parameters)
        except sqlite3.Error as error:
            raise OSError(EIO, str(error)) from None

    def close(self) -> None:
        """Close the database; keys since the last ``save`` are forgotten."""
        self._database.close()
