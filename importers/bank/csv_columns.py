"""Know the column names of bank statements, and the banks that need more than column names."""

import re
import unicodedata
from dataclasses import dataclass

from importers.bank.amounts import currency_code

# Names are compared in lower case, without accents and without a currency; see ``plain_name``.
# Within a field, earlier names win: the booking date before the value date.
COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "date": (
        "booking date", "date", "buchungstag", "buchungsdatum", "datum", "transaction date",
        "posting date", "posted date", "post date", "buchung", "fecha", "fecha operacion", "data",
        "date operation", "date de comptabilisation", "date comptabilisation", "date comptable", "date d'operation",
        "date de l'operation", "date op", "dateop", "date de transaction", "started date", "日付",
        "date de debut", "fecha de inicio",
        "fecha de operacion", "f. operacion", "fecha contable", "data operazione", "data contabile",
        "data movimento", "data da operacao", "data lancamento", "data do lancamento", "data mov.",
        "boekdatum", "boekingsdatum", "transactiedatum", "transactiondate", "transactiedag",
        "bokforingsdag", "bokforingsdatum", "bokforingsdato", "bokfort", "transaktionsdatum",
        "transaktionsdag", "dato", "bogfort", "bogforingsdato", "kirjauspaiva", "paivamaara",
        "data operacji", "data ksiegowania", "data transakcji", "data zauctovani", "datum provedeni",
        "datum transakce", "konyveles datuma", "tarih", "islem tarihi", "дата", "дата операции",
        "дата платежа", "取引日", "お取引日", "ご利用日", "交易日期", "记账日期", "거래일시", "거래일",
        "trans. date", "trans date", "date posted", "bookingdate", "transaktionsdato", "completed date",
        "effective date", "value date", "valutadatum", "valuta", "wertstellung", "wertstellungstag",
        "wertstellungsdatum", "date valeur", "date de valeur", "fecha valor", "data valuta",
        "rentedatum", "valuutapaiva", "created on", "timestamp",
    ),
    "amount": (
        "amount", "betrag", "umsatz", "importe", "importo", "montant", "bedrag", "金額",
        "transaction amount", "amount in account currency", "belop", "belopp", "belob", "summa",
        "maara", "kwota", "kwota operacji", "kwota transakcji", "castka", "objem", "osszeg", "tutar",
        "islem tutari", "сумма", "сумма операции", "сумма платежа", "valor", "montante", "monto",
        "quantia", "transactiebedrag", "buchungsbetrag", "transaction value", "金额", "交易金额",
        "거래금액", "montant de l'operation", "montant operation", "importo operazione", "net amount", "brutto", "gross",
    ),
    "debit": (
        "debit", "soll", "cargo", "money out", "paid out", "debit amount", "withdrawals",
        "belastung", "cargos", "withdrawal", "withdrawal amount", "lastschrift", "ausgang",
        "ausgaben", "ausgabe", "debito", "debitos", "debe", "addebiti", "addebito", "uscite", "dare",
        "af", "uit", "out", "saidas", "payments out", "spent", "depenses", "retraits", "ut", "uttag",
        "debet", "出金金額", "お支払い金額", "withdrawal amt.", "debit amt", "obciazenia", "出金", "出金額", "お引出し", "支出",
        "ut fra konto", "amount debit", "debits", "outflow", "charge", "charges", "paid out amount", "gasto",
    ),
    "credit": (
        "credit", "haben", "abono", "money in", "paid in", "credit amount", "deposits",
        "gutschrift", "abonos", "deposit", "deposit amount", "eingang", "einnahmen", "einnahme",
        "credito", "creditos", "haber", "accrediti", "accredito", "entrate", "avere", "bij", "in",
        "entradas", "payments in", "received", "recettes", "depots", "versements", "inn",
        "insattning", "kredit", "入金金額", "お預かり金額", "deposit amt.", "credit amt", "uznania", "入金", "入金額", "お預入れ",
        "收入", "inn pa konto", "amount credit", "credits", "inflow", "paid in amount", "ingreso",
    ),
    "counterparty": (
        "name / description", "payee", "name", "description", "beguenstigter/zahlungspflichtiger",
        "auftraggeber/empfanger", "name zahlungsbeteiligter", "zahlungsempfanger*in", "empfanger",
        "payee name", "counterparty", "beneficiary", "merchant", "libelle", "concepto",
        "partner name", "auftraggeber / begunstigter", "auftraggeber/begunstigter",
        "empfanger/auftraggeber", "naam / omschrijving", "naam tegenpartij",
        "tegenpartij", "naam", "omschrijving", "zahlungspflichtige*r", "begunstigter", "descrizione",
        "descripcion", "descricao", "historico", "beneficiario", "controparte", "beneficiaire",
        "contrepartie", "tekst", "text", "beskrivning", "beskrivelse", "forklaring", "mottagare",
        "saaja/maksaja", "saaja", "odbiorca", "nazwa odbiorcy", "nadawca / odbiorca",
        "opis operacji", "opis transakcji", "protistrana", "nazev protiuctu", "partner neve",
        "aciklama", "описание", "получатель", "контрагент", "摘要", "適用", "お取扱内容", "内容",
        "ご利用店名", "利用店名・商品名", "对方户名", "적요", "transaction description", "narrative",
        "narration", "particulars", "transaction details", "merchant name", "buchungsdetails",
        "libelle operation", "libelle complet operation", "libelles", "intitule", "concept", "buchungstext", "details",
        "operacion", "movimiento",
    ),
    "memo": (
        "memo", "notes", "verwendungszweck", "purpose", "reference", "buchungstext",
        "payment reference", "details", "communication", "observaciones", "mededelingen",
        "notifications", "betreff", "verwendungszweck / zahlungstext", "transaktionsbeschreibung",
        "omschrijving-1", "details du mouvement", "informations complementaires", "causale",
        "note", "mensaje", "mas datos", "viesti", "tytul", "tytulem", "zprava pro prijemce",
        "kozlemeny", "назначение платежа", "備考", "비고", "extended details", "betreffzeile",
        "remarks", "complement d'informations", "zahlungsgrund",
    ),
    "currency": (
        "currency", "wahrung", "waehrung", "devise", "moneda", "divisa", "valuta", "munt",
        "muntsoort", "valutakod", "currency code", "ccy", "moeda", "mena", "waluta", "penznem",
        "doviz", "валюта", "валюта операции", "通貨", "币种", "통화", "account currency",
    ),
    "counterparty_account": (
        "iban", "kontonummer/iban", "iban zahlungsbeteiligter", "partner iban", "tegenrekening",
        "account number", "kontonummer", "tegenrekening iban/bban", "compte partie adverse",
        "counterparty account", "payee account number", "gegenkonto", "iban / kontonummer",
        "counterparty iban", "compte contrepartie", "cislo uctu protistrany", "protiucet",
        "counterparty",
    ),
    "category": ("category", "kategorie", "categorie", "categoria", "kategori"),
    "kind": (
        "type", "transaction type", "umsatztyp", "umsatzart", "buchungsart", "mutatiesoort", "typ",
        "type de mouvement", "tipo", "tipo de operacion", "tipo movimento",
    ),
    "check_number": ("check number", "check or slip #", "cheque number", "check #"),
    "account": (
        "auftragskonto", "iban auftragskonto", "rekening", "iban/bban", "accountnumber",
        "rekeningnummer", "numero de compte", "account #", "card no.", "account name", "eigene iban",
        "own account", "account", "account number", "kontonummer", "konto", "card number",
        "kartennummer", "compte", "cuenta", "conto", "iban", "numer rachunku", "cislo uctu", "card",
        "номер счета", "номер карты", "口座番号", "bezeichnung auftragskonto",
    ),
    "status": (
        "state", "status", "transaction status", "stato", "estado", "statut", "info",
        "buchungsstatus", "статус", "contabilizzazione", "etat",
    ),
    "identifier": (
        "transaction id", "transferwise id", "transaktionscode", "transaktions-id", "transactionid",
        "numero de mouvement", "volgnr", "id", "numero de transaction", "codigo de transaccion",
    ),
    "fee": ("fee", "entgelt", "gebuhr", "frais", "comision", "tariffa"),
    "effect": ("balance impact", "auswirkung auf guthaben", "impact sur le solde"),
    "payer": ("zahlungspflichtige*r", "payer name", "payer"),
    "balance": (
        "balance", "running balance", "running bal.", "saldo", "saldo nach buchung", "solde",
        "saldo na mutatie", "saldo na trn", "saldo po operacji", "kontostand", "closing balance",
        "account balance", "saldo contable", "guthaben",
    ),
}  # fmt: skip

CURRENCY_NAMES = COLUMN_NAMES["currency"]
OWN_ACCOUNT_NAMES = COLUMN_NAMES["account"][:12]
"""These name the owner's account; other names of ``account`` may be that of the other side."""
DEBITS = frozenset((
    "af", "debit", "d", "dr", "db", "s", "soll", "lastschrift", "cargo", "dare", "ausgabe", "ausgang",
    "out", "uit", "belastung", "debet", "withdrawal", "expense", "money out", "dbit", "-", "debito",
    "ausgaben", "uscita", "salida", "depense", "retrait", "支出", "出金", "расход", "obciazenie",
    "debe", "gasto", "egreso", "sortie", "by", "minus", "payment out", "saida", "出",
))  # fmt: skip
CREDITS = frozenset((
    "bij", "credit", "c", "cr", "k", "h", "haben", "gutschrift", "abono", "avere", "einnahme",
    "eingang", "in", "kredit", "deposit", "income", "money in", "crdt", "+", "credito", "einnahmen",
    "entrata", "entrada", "recette", "versement", "收入", "入金", "приход", "uznanie", "haber",
    "ingreso", "entree", "aan", "plus", "payment in", "入",
))  # fmt: skip
NOT_BOOKED = frozenset((
    "reverted", "declined", "failed", "cancelled", "canceled", "pending", "vorgemerkt", "denied",
    "umsatz vorgemerkt", "ausstehend", "abgelehnt", "storniert", "fehlgeschlagen", "zuruckgesetzt",
    "en attente", "refuse", "annule", "pendiente", "rechazado", "cancelado", "revertido", "in attesa",
    "annullato", "rifiutato", "removed", "reversed", "expired", "voided", "authorised", "authorized",
    "in bearbeitung", "processing", "rejected", "blocked", "in behandeling", "geweigerd", "offen",
    "rückgängig gemacht", "ruckgangig gemacht", "reservert", "reserverad", "wartend", "held",
    "venter", "non contabilizzato", "gereserveerd", "pendente", "oczekujaca", "odrzucona", "blokada",
    "waiting", "scheduled", "upcoming", "beklemede", "в обработке", "отклонена", "non comptabilise",
))  # fmt: skip
"""States of rows that do not count in the balance."""
NOT_MONEY = frozenset(("unit", "units", "einheit", "calories", "kcal", "quantity", "servings"))
"""A table with such a column measures something else."""

_CURRENCY = re.compile(r"\s*[(\[]\s*([^()\[\]]{1,6})\s*[)\]]|\b(?:in|en)\s+(\S{1,4})$|\s(\S{1,5})$")


@dataclass(frozen=True, slots=True)
class Bank:
    """A bank whose statements need more than column names.

    ``header`` are plain names that identify it. ``pockets``: each currency, or product and
    currency, is an account. ``is_inverted``: purchases are printed without a minus sign.
    """

    name: str
    header: frozenset[str]
    pockets: tuple[str, ...] = ()
    is_inverted: bool = False


BANKS = (
    Bank("Revolut", frozenset(("type", "product", "started date", "amount", "fee", "state")),
         ("product", "currency")),
    Bank("Revolut", frozenset(("type", "started date", "amount", "fee", "currency", "state")),
         ("currency",)),
    Bank("Revolut", frozenset(("typ", "produkt", "datum des beginns", "betrag", "gebuhr")),
         ("produkt", "wahrung")),
    Bank("Revolut", frozenset(("type", "produit", "date de debut", "montant", "frais")),
         ("produit", "devise")),
    Bank("Revolut", frozenset(("tipo", "producto", "fecha de inicio", "importe", "comision")),
         ("producto", "divisa")),
    Bank("PayPal", frozenset(("time zone", "currency", "gross", "fee", "net")), ("currency",)),
    Bank("PayPal", frozenset(("timezone", "currency", "gross", "fee", "net")), ("currency",)),
    Bank("PayPal", frozenset(("zeitzone", "wahrung", "brutto", "netto")), ("wahrung",)),
    Bank("PayPal", frozenset(("fuseau horaire", "etat", "devise", "net")), ("devise",)),
    Bank("Wise", frozenset(("transferwise id", "amount", "currency", "running balance")),
         ("currency",)),
    Bank("Amex", frozenset(("date", "description", "card member", "amount")), is_inverted=True),
    Bank("Amex", frozenset(("datum", "beschreibung", "karteninhaber", "betrag")), is_inverted=True),
    Bank("Amex", frozenset(("date", "description", "extended details", "amount", "appears on your statement as")),
         is_inverted=True),
    Bank("Discover", frozenset(("trans. date", "post date", "description", "amount", "category")),
         is_inverted=True),
    Bank("Apple Card", frozenset(("transaction date", "clearing date", "merchant", "amount")),
         is_inverted=True),
    Bank("ING", frozenset(("naam / omschrijving", "rekening", "af bij"))),
    Bank("ING", frozenset(("name / description", "account", "debit/credit"))),
    Bank("ING", frozenset(("buchung", "auftraggeber/empfanger", "buchungstext", "saldo"))),
)  # fmt: skip


def plain_name(header: str) -> tuple[str, str | None]:
    """Return a column name without accents and currency, and the currency."""
    text = " ".join(header.replace("_", " ").replace("\u00a0", " ").split()).strip(" :;\"'")
    text = text.lstrip("#")
    currency = None
    if match := _CURRENCY.search(text):
        currency = currency_code(match[1] or match[2] or match[3])
        if currency or (match[1] and match[1].strip() in ("$", "¥", "kr")):
            text = (text[: match.start()] + text[match.end() :]).strip()
    decomposed = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss").replace("ł", "l"))
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(
        bare.replace("ø", "o").replace("\u0131", "i").replace("æ", "ae").split()
    ), currency


_PLAIN_NAMES = {
    field: tuple(plain_name(name)[0] for name in names) for field, names in COLUMN_NAMES.items()
}


DATE_NAMES = _PLAIN_NAMES["date"]


def guess_columns(header: tuple[str, ...]) -> dict[str, int]:
    """Return the index of the column of each field whose column name is known."""
    indexes = {plain_name(name)[0]: index for index, name in reversed(list(enumerate(header)))}
    columns: dict[str, int] = {}
    for field, names in _PLAIN_NAMES.items():
        found = [indexes[name] for name in names if name in indexes]
        free = [index for index in found if index not in columns.values()]
        if free and field not in ("account", "status"):
            columns[field] = free[0]
        elif found and field in ("account", "status"):
            columns[field] = found[0]
    if "amount" in columns and not columns.keys() >= {"debit", "credit"}:
        columns.pop("debit", None), columns.pop("credit", None)
    elif "amount" in columns:
        columns.pop("amount")  # without a sign, or in another currency
    return columns


def is_known_name(header: str) -> bool:
    return any(plain_name(header)[0] in names for names in _PLAIN_NAMES.values())


def find_bank(header: tuple[str, ...]) -> Bank | None:
    names = {plain_name(name)[0] for name in header}
    return next((bank for bank in BANKS if bank.header <= names), None)
