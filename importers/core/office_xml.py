"""Read the text in the XML of Office files in bounded memory, without what was deleted from it."""

import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO
from xml.etree.ElementTree import Element, iterparse

_DELETED = frozenset(("del", "moveFrom", "tracked-changes"))
_DRAWN = frozenset(("p", "comment", "threadedComment", "v"))
_BLANKS = frozenset(("tab", "br", "cr", "noBreakHyphen", "ptab"))
_NOT_TEXT = frozenset(("note-citation", "ruby-text", "rt", "instrText", "delText", "pPr", "rPr"))
_COMMENT_AUTHOR = "{http://purl.org/dc/elements/1.1/}"
_BEFORE = {"den": "/", "sup": "^", "sub": "_"}
"""Marks before parts of a formula."""
_MARK = re.compile(r"\(\w+:\S*\)|\[[^\[\]\s]{0,8}\d+\]")
"""Targets of links and numbers of notes, which the libraries add to a text."""
_REPEATED_BLANKS = 100
_CELL = ("table-cell", "covered-table-cell")
_NUMBERS = frozenset(("float", "percentage", "currency", "date"))


def name_of(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Element, name: str) -> str:
    found = (value for key, value in element.attrib.items() if key.rpartition("}")[2] == name)
    return next(found, "")


def missing_lines(lines: Iterable[str], text: str) -> Iterator[str]:
    """Yield those of the lines whose words the text has not, each once."""
    known = {_words(line) for line in text.split("\n")}
    whole = _words(text)
    for line in lines:
        words = _words(line)
        if words and words not in known and words not in whole:
            known.add(words)
            yield line


def _words(text: str) -> str:
    return "".join(re.findall(r"\w+", _MARK.sub("", text)))


def drawn_lines(archive: zipfile.ZipFile, parts: re.Pattern[str]) -> Iterator[str]:
    """Yield the paragraphs, comments and values of charts in some parts of an OOXML file."""
    for name in sorted(filter(parts.fullmatch, archive.namelist())):
        with archive.open(name) as part:
            yield from _drawn_lines(part)


def _drawn_lines(part: IO[bytes]) -> Iterator[str]:
    in_deleted_row = False
    for _, element in iterparse(part):  # noqa: S314 - expat limits entities, and the sandbox memory
        name = name_of(element)
        if name == "trPr":
            in_deleted_row = any(name_of(child) == "del" for child in element)
        elif name == "tr":
            in_deleted_row = False
        elif name in _DRAWN or (name == "text" and "presentationml" in element.tag):
            if not in_deleted_row and (text := "".join(_inline(element, [])).strip()):
                where = attribute(element, "ref")
                yield f"{where}: {text}" if where else text
            element.clear()


def link_targets(archive: zipfile.ZipFile, parts: re.Pattern[str]) -> Iterator[str]:
    """Yield the addresses that links of some parts lead to."""
    for name in sorted(filter(parts.fullmatch, archive.namelist())):
        with archive.open(name) as part:
            for _, element in iterparse(part):  # noqa: S314 - expat limits entities, and the sandbox memory
                if element.get("Type", "").endswith("/hyperlink"):
                    yield element.get("Target", "")


def opendocument_lines(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the paragraphs, and the rows of spreadsheets, then what each page of a text repeats."""
    with archive.open("content.xml") as stream:
        yield from _opendocument_lines(stream, "")
    if "styles.xml" in archive.namelist() and b".text" in archive.read("mimetype"):
        with archive.open("styles.xml") as stream:
            yield from _opendocument_lines(stream, "master-styles")


def _opendocument_lines(stream: IO[bytes], only_within: str) -> Iterator[str]:
    open_names: list[str] = []
    for event, element in iterparse(stream, events=("start", "end")):  # noqa: S314
        name = name_of(element)
        if event == "start":
            open_names.append(name)
            if name == "table" and "spreadsheet" in open_names:
                yield f"\n{attribute(element, 'name')}"
            continue
        open_names.pop()
        is_outside = only_within not in open_names if only_within else False
        if is_outside or not _DELETED.isdisjoint(open_names):
            element.clear()
        elif name == "table-row" and "spreadsheet" in open_names:
            yield from _row_lines(element)
            element.clear()
        elif name in ("p", "h") and not {"p", "h", "table-row"} & _of_sheets(open_names):
            lines: list[str] = []
            text = "".join(_inline(element, lines))
            yield from (text, *lines)
            element.clear()


def _of_sheets(open_names: list[str]) -> set[str]:
    """Return the open elements; rows count in a spreadsheet only, whose cells are read together."""
    return set(open_names) - (set() if "spreadsheet" in open_names else {"table-row"})


def _inline(element: Element, lines: list[str]) -> Iterator[str]:
    """Yield the text of an element; paragraphs in it, such as notes, are added to ``lines``."""
    yield element.text or ""
    for child in element:
        name = name_of(child)
        if name in ("p", "h"):
            lines.append("".join(_inline(child, lines)))
        elif name == "s":
            yield " " * min(int(attribute(child, "c") or 1), _REPEATED_BLANKS)
        elif name in _BLANKS or name == "line-break":
            yield " "
        elif name not in _DELETED | _NOT_TEXT and not str(child.tag).startswith(_COMMENT_AUTHOR):
            yield _BEFORE.get(name, "")
            text = "".join(_inline(child, lines))
            yield text
            if (target := attribute(child, "href")) and name == "a" and target not in text:
                yield f" ({target})"
        yield child.tail or ""


def _row_lines(row: Element) -> Iterator[str]:
    """Yield the line of a row as often as the row is repeated; empty ones are left out."""
    values: list[str] = []
    lines: list[str] = []
    for cell in row:
        if name_of(cell) in _CELL:
            value = _cell_value(cell, lines)
            repeated = int(attribute(cell, "number-columns-repeated") or 1)
            values += [value] * (repeated if value else min(repeated, _REPEATED_BLANKS))
    if line := " | ".join(values).rstrip(" |"):
        yield from (line for _ in range(int(attribute(row, "number-rows-repeated") or 1)))
    yield from lines


def _cell_value(cell: Element, lines: list[str]) -> str:
    """Return the value of a cell; an error is shown as it is displayed. Notes are lines."""
    texts = ["".join(_inline(each, lines)) for each in cell if name_of(each) == "p"]
    for each in cell:
        if name_of(each) != "p":
            lines.append("".join(_inline(each, lines)))
    shown, kind = "\n".join(texts), attribute(cell, "value-type")
    if kind not in _NUMBERS or shown.startswith(("#", "Err:")):
        return shown
    return attribute(cell, "date-value" if kind == "date" else "value") or shown
