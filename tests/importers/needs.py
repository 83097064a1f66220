"""Marks of tests that need an extra, with the make target that installs it."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


def _mark(title: str, *modules: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not all(map(find_spec, modules)), reason=f"needs the {title} extra: make {title.lower()}"
    )


def writes(package: str, module: str) -> pytest.MarkDecorator:
    """Return the mark of tests whose files a package writes that only ``make test-all`` installs."""
    return pytest.mark.skipif(
        find_spec(module) is None, reason=f"needs the package {package}: make test-all"
    )


OCR = _mark("OCR", "PIL", "pypdfium2", "tesserocr")
OFFICE = _mark("Office", "mammoth", "openpyxl", "pptx")
OUTLOOK = _mark("Outlook", "pypff")
WORD_FILES = writes("python-docx", "docx")
OPEN_DOCUMENTS = writes("odfdo", "odfdo")


def optional_module(name: str) -> Any:
    """Return a module of an extra, or None where the extra is missing and the tests are skipped."""
    return import_module(name) if find_spec(name.partition(".")[0]) else None
