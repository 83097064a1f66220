"""Write small data files of Outlook (.pst) as MS-PST describes them, without its allocation maps."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

Value = str | int | bytes | datetime | list[str]
Properties = Mapping[int, "Value | Mail"]

INTEGER, TIME, UNICODE, UNICODES, BINARY, OBJECT = 0x03, 0x40, 0x1F, 0x101F, 0x102, 0x0D
ROOT, FOLDER, MESSAGE, ATTACHMENT, LARGE = 0x122, 0x02, 0x04, 0x05, 0x1F
FOLDERS_OF, MESSAGES_OF, SETTINGS_OF, RECIPIENTS, ATTACHMENTS = 0x0D, 0x0E, 0x0F, 0x692, 0x671
ATTACHED = 0x200 << 5 | MESSAGE
BLOCK_BYTES = 8_176
INLINE_BYTES = 3_000
FIRST_BLOCK = 0x4600
CATEGORIES = 0x8000
_NAME = "Keywords".encode("utf-16-le")
_NAMES: Properties = {
    1: 251, 2: bytes(16), 3: struct.pack("<IHH", 0, 2 << 1 | 1, 0),
    4: struct.pack("<I", len(_NAME)) + _NAME,
}  # fmt: skip
"""The only property beside those with a number: the categories."""


@dataclass
class Mail:
    """A message: its properties, those of its recipients, and those of its files."""

    properties: Properties
    recipients: Sequence[Properties] = ()
    files: Sequence[Properties] = ()


@dataclass
class _Node:
    """Data of a node, and its own nodes by id."""

    data: bytes
    subnodes: dict[int, "_Node"] = field(default_factory=dict)


def data_file(folders: Mapping[str, Sequence[Mail]]) -> bytes:
    """Return a file whose folders lie below "Top of Personal Folders"."""
    file = _File()
    file.add(0x21, _properties({0x3001: "Personal Folders"}), 0)
    file.add(0x61, _properties(_NAMES), 0)
    top, names = file.next_id(FOLDER), [(file.next_id(FOLDER), name) for name in folders]
    file.add_folder(ROOT, "", ROOT, [top], [])
    file.add_folder(top, "Top of Personal Folders", ROOT, [each for each, _ in names], [])
    for folder, name in names:
        messages = {file.next_id(MESSAGE): _message(mail) for mail in folders[name]}
        file.add_folder(folder, name, top, [], list(messages))
        for each, message in messages.items():
            file.add(each, message, folder)
    return file.content()


def _message(mail: Mail) -> _Node:
    node = _properties({0x001A: "IPM.Note", **mail.properties})
    if mail.recipients:
        node.subnodes[RECIPIENTS] = _table([dict(each) for each in mail.recipients])
    if mail.files:
        ids = [0x100 + number << 5 | ATTACHMENT for number in range(len(mail.files))]
        node.subnodes[ATTACHMENTS] = _table([{0x67F2: each} for each in ids])
        for each, properties in zip(ids, mail.files, strict=True):
            node.subnodes[each] = _properties({0x3705: 1, **properties})
    return node


class _Heap:
    """A heap in one block; values that are too long become nodes of their own."""

    def __init__(self, kind: int) -> None:
        self.subnodes: dict[int, _Node] = {}
        self._kind = kind
        self._items: list[bytes] = []

    def add(self, content: bytes) -> int:
        if len(content) > INLINE_BYTES:
            node = len(self.subnodes) + 0x400 << 5 | LARGE
            self.subnodes[node] = _Node(content)
            return node
        self._items.append(content)
        return len(self._items) << 5

    def node(self, root: int) -> _Node:
        starts, at = [], 12
        for item in self._items:
            starts.append(at)
            at += len(item)
        body = b"".join(self._items)
        padding = b"\0" * (at % 2)
        head = struct.pack("<HBBII", at + len(padding), 0xEC, self._kind, root, 0)
        ends = struct.pack(f"<HH{len(starts) + 1}H", len(starts), 0, *starts, at)
        return _Node(head + body + padding + ends, self.subnodes)

    def tree(self, key_bytes: int, records: Sequence[bytes]) -> int:
        """Add a tree of records, sorted by key, and return the id of its header."""
        root = self.add(b"".join(records)) if records else 0
        value_bytes = len(records[0]) - key_bytes if records else key_bytes
        return self.add(struct.pack("<BBBBI", 0xB5, key_bytes, value_bytes, 0, root))


def _encode(value: Value) -> tuple[int, bytes]:
    if isinstance(value, int):
        return INTEGER, struct.pack("<I", value)
    if isinstance(value, str):
        return UNICODE, value.encode("utf-16-le")
    if isinstance(value, datetime):
        ticks = (value - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds() * 10_000_000
        return TIME, struct.pack("<Q", int(ticks))
    if isinstance(value, list):
        texts = [each.encode("utf-16-le") for each in value]
        starts = [4 + 4 * len(texts) + sum(map(len, texts[:at])) for at in range(len(texts))]
        return UNICODES, struct.pack(f"<{len(texts) + 1}I", len(texts), *starts) + b"".join(texts)
    return BINARY, value


def _properties(properties: Properties) -> _Node:
    heap, records = _Heap(0xBC), []
    for each, value in sorted(properties.items()):
        if isinstance(value, Mail):
            heap.subnodes[ATTACHED], value = _message(value), struct.pack("<II", ATTACHED, 0)
            kind, content = OBJECT, value
        else:
            kind, content = _encode(value)
        number = int.from_bytes(content, "little") if kind == INTEGER else heap.add(content)
        records.append(struct.pack("<HHI", each, kind, number))
    return heap.node(heap.tree(2, records))


def _table(rows: Sequence[dict[int, Value]]) -> _Node:
    """Return a table whose rows have the same columns."""
    heap = _Heap(0x7C)
    rows = [{0x67F2: number, 0x67F3: 1, **row} for number, row in enumerate(rows, 1)]
    columns = [0x67F2, 0x67F3, *sorted({*(rows[0] if rows else ())} - {0x67F2, 0x67F3})]
    matrix, flags = b"", (0xFF << 8 - len(columns) & 0xFF) if len(columns) <= 8 else 0xFF
    for row in rows:
        cells = b""
        for each in columns:
            kind, content = _encode(row[each])
            cells += content if kind == INTEGER else struct.pack("<I", heap.add(content))
        matrix += cells + bytes([flags])
    width = len(columns) * 4
    kinds = {each: _encode(value)[0] for row in rows for each, value in row.items()}
    descriptions = b"".join(
        struct.pack("<HHHBB", kinds.get(each, INTEGER), each, number * 4, 4, number)
        for number, each in enumerate(columns)
    )
    index = heap.tree(
        4,
        [struct.pack("<II", int(row[0x67F2]), at) for at, row in enumerate(rows)],  # type: ignore[arg-type]
    )
    sizes = struct.pack("<HHHH", width, width, width, width + 1)
    head = struct.pack("<BB", 0x7C, len(columns)) + sizes
    root = heap.add(
        head + struct.pack("<III", index, heap.add(matrix) if rows else 0, 0) + descriptions
    )
    return heap.node(root)


class _File:
    def __init__(self) -> None:
        self._out = bytearray(FIRST_BLOCK)
        self._blocks: list[tuple[int, int, int]] = []
        self._nodes: list[tuple[int, int, int, int]] = []
        self._next = {FOLDER: 0x400, MESSAGE: 0x10000}

    def next_id(self, kind: int) -> int:
        self._next[kind] += 1
        return self._next[kind] << 5 | kind

    def add(self, each: int, node: _Node, parent: int) -> None:
        data, below = self._store(node)
        self._nodes.append((each, data, below, parent))

    def add_folder(
        self, each: int, name: str, parent: int, folders: Sequence[int], messages: Sequence[int]
    ) -> None:
        self.add(each, _properties({0x3001: name, 0x3602: len(messages)}), parent)
        for kind, ids in ((FOLDERS_OF, folders), (MESSAGES_OF, messages), (SETTINGS_OF, [])):
            self.add(each & ~0x1F | kind, _table([{0x67F2: below} for below in ids]), 0)

    def content(self) -> bytes:
        nodes = [struct.pack("<QQQII", *node, 0) for node in sorted(self._nodes)]
        node_root = self._tree(nodes, page_kind=0x81)
        blocks = [struct.pack("<QQHHI", *block, 2, 0) for block in sorted(self._blocks)]
        block_root = self._tree(blocks, page_kind=0x80)
        self._out[:564] = _header(len(self._out), node_root, block_root)
        return bytes(self._out)

    def _store(self, node: _Node) -> tuple[int, int]:
        """Store a node with its own nodes, and return the ids of both blocks."""
        below = 0
        if node.subnodes:
            entries = b"".join(
                struct.pack("<QQQ", each, *self._store(child))
                for each, child in sorted(node.subnodes.items())
            )
            below = self._block(
                struct.pack("<BBHI", 2, 0, len(node.subnodes), 0) + entries, is_data=False
            )
        chunks = [node.data[at : at + BLOCK_BYTES] for at in range(0, len(node.data), BLOCK_BYTES)]
        ids = [self._block(chunk, is_data=True) for chunk in chunks]
        if len(ids) == 1:
            return ids[0], below
        head = struct.pack("<BBHI", 1, 1, len(ids), len(node.data))
        return self._block(head + struct.pack(f"<{len(ids)}Q", *ids), is_data=False), below

    def _block(self, data: bytes, *, is_data: bool) -> int:
        each = (len(self._blocks) + 1) * 4 | (0 if is_data else 2)
        at = len(self._out)
        self._blocks.append((each, at, len(data)))
        padding = -(len(data) + 16) % 64
        trailer = struct.pack("<HHIQ", len(data), _signature(at, each), _checksum(data), each)
        self._out += data + b"\0" * padding + trailer
        return each

    def _tree(self, entries: Sequence[bytes], *, page_kind: int) -> tuple[int, int]:
        """Store pages of entries and of their first keys, and return id and place of the root."""
        level = 0
        while True:
            size = len(entries[0])
            most = 488 // size
            pages = [entries[at : at + most] for at in range(0, len(entries), most)]
            stored = [self._page(page, size, most, level, page_kind) for page in pages]
            if len(stored) == 1:
                return stored[0]
            entries = [
                page[0][:8] + struct.pack("<QQ", *ref)
                for page, ref in zip(pages, stored, strict=True)
            ]
            level += 1

    def _page(
        self, entries: Sequence[bytes], size: int, most: int, level: int, kind: int
    ) -> tuple[int, int]:
        self._out += b"\0" * (-len(self._out) % 512)
        at, each = len(self._out), 0x10_0000 + len(self._out)
        body = b"".join(entries).ljust(488, b"\0")
        body += struct.pack("<BBBBI", len(entries), most, size, level, 0)
        trailer = struct.pack("<BBHIQ", kind, kind, _signature(at, each), _checksum(body), each)
        self._out += body + trailer
        return each, at


def _header(size: int, node_root: tuple[int, int], block_root: tuple[int, int]) -> bytes:
    root = struct.pack("<IQQQQQQQQBBH", 0, size, 0x4400, 0, 0, *node_root, *block_root, 2, 0, 0)
    middle = struct.pack("<2sHHBBIIQQI", b"SM", 23, 19, 1, 1, 0, 0, 0, 0x20_0000, 1)
    middle += (
        b"\0" * 136 + root + b"\0" * 4 + b"\xff" * 256 + struct.pack("<BBHQ", 0x80, 0, 0, 0x10_0000)
    )
    head = b"!BDN" + struct.pack("<I", _checksum(middle[:471])) + middle
    return (head + struct.pack("<I", _checksum(middle[:516]))).ljust(564, b"\0")


def _signature(at: int, each: int) -> int:
    mixed = (at ^ each) & 0xFFFF_FFFF
    return mixed >> 16 ^ mixed & 0xFFFF


def _checksum(content: bytes) -> int:
    return zlib.crc32(content, 0xFFFF_FFFF) ^ 0xFFFF_FFFF
