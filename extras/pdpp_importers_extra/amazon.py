"""Import the order history of Amazon (CSV of "Request your data")."""

import re
from decimal import Decimal
from functools import partial

from importers.core.dates import to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options, claim_each
from importers.core.readers import Row, find_header, iter_rows
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import one_line

_HEADER = ("Order ID", "Order Date", "ASIN", "Product Name", "Unit Price")
_MISSING = ("", "not available", "not applicable")
# A comma alone may be a decimal separator.
_AMOUNT = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+\.\d{1,4}|\d{1,12}(?:\.\d{1,4})?)")
_CURRENCY = re.compile(r"[A-Z]{3}")
_AMOUNTS = {
    "unit_price": ("unit price",),
    "tax": ("unit price tax",),
    "shipping": ("shipping charge",),
    "discount": ("total discounts",),
    "total": ("total owed", "total amount"),
}
_TEXTS = {
    "order_id": ("order id",),
    "title": ("product name",),
    "product_id": ("asin",),
    "status": ("order status",),
    "condition": ("product condition",),
    "seller": ("seller",),
    "website": ("website",),
}


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    return iter_items(files, partial(_read_file, keys=ContentKeys("o_")))


def _read_file(file: ExportFile, *, keys: ContentKeys) -> ExportItems:
    for line, row in iter_rows(file):
        order = row.get("order id")
        keys.start_group(order)
        key = keys.key("amazon", order, row.get("asin"))
        size = sum(map(len, row.values()))
        yield ExportItem(file.name, f"line {line:,}", size, partial(_item, row, key))


def _cell(row: Row, names: tuple[str, ...]) -> str | None:
    values = (row.get(name, "").strip() for name in names)
    return next((value for value in values if value.lower() not in _MISSING), None)


def _item(row: Row, key: str) -> ParsedItem:
    if row.get(""):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=row[""][:80])
    item = ParsedItem()
    texts = {name: _cell(row, names) for name, names in _TEXTS.items()}
    if texts["order_id"] is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    ordered, shipped = _cell(row, ("order date",)), _cell(row, ("ship date",))
    currency = _cell(row, ("currency",))
    quantity = _cell(row, ("quantity", "original quantity"))
    data = {
        "id": key,
        "shop": "Amazon",
        "ordered_at": item.require_date(to_utc(ordered), ordered),
        "shipped_at": to_utc(shipped),
        "quantity": int(quantity) if quantity and re.fullmatch("[0-9]{1,9}", quantity) else None,
        "currency": currency if currency and _CURRENCY.fullmatch(currency) else None,
        **{name: one_line(value) if value else None for name, value in texts.items()},
        **{name: _amount(_cell(row, names)) for name, names in _AMOUNTS.items()},
    }
    item.records.append(ParsedRecord("items", data))
    return item


def _amount(written: str | None) -> float | None:
    """Raises ``UnreadableError`` for an amount whose decimal separator is not certain."""
    if written is None:
        return None
    bare = written.strip("'\" ")
    if not _AMOUNT.fullmatch(bare):
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=written[:40])
    return float(Decimal(bare.replace(",", "")))


AMAZON = Importer(
    claim=claim_each(lambda file: file.suffix == ".csv" and find_header(file, *_HEADER) == 0),
    read=_read,
)
