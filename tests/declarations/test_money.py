"""Money is shown as a decimal of its currency."""

import pytest

from evidence.declarations.declaration import MoneyFormat


@pytest.mark.parametrize(
    ("value", "currency", "minor", "exponent", "text"),
    [
        (-7440, "EUR", True, None, "-74.40 EUR"),
        (5870, "JPY", True, None, "5870 JPY"),
        (183200, "CNY", True, None, "1832.00 CNY"),
        (1234, "KWD", True, None, "1.234 KWD"),
        (5, "EUR", True, None, "0.05 EUR"),
        (1234, "EUR", True, 3, "1.234 EUR"),
        (-74.4, "EUR", False, None, "-74.40 EUR"),
        (10**15, "EUR", False, None, "1000000000000000.00 EUR"),
        (0.125, "EUR", False, None, "0.125 EUR"),
        (1e300, "EUR", True, None, None),
        (True, "EUR", True, None, None),
        ("12", "EUR", True, None, None),
        (12, "euro", True, None, None),
        (12, None, True, None, None),
    ],
)
def test_text_of_an_amount(
    value: object, currency: object, minor: bool, exponent: int | None, text: str | None
) -> None:
    assert MoneyFormat("currency", minor, exponent).text(value, currency) == text
