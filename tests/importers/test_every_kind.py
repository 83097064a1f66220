"""Every kind of export has tests against damage, of a year of life, and of the table of totals."""

import re
from collections.abc import Callable

from importers.registry import OWN_FOLDER, OWN_PACKAGE, load_manifest
from tests.importers import (
    test_bank_years,
    test_databases,
    test_demo_year,
    test_habits,
    test_notes,
    test_outlook,
    test_social,
    test_takeout,
    test_text_recognition,
    test_tracks,
)
from tests.importers.imports import TORTURE
from tests.importers.test_import_totals import EXPORTS

KINDS = {each.name for each in load_manifest(OWN_PACKAGE, OWN_FOLDER)}

YEARS: dict[str, tuple[Callable[..., None], ...]] = {
    "chatgpt": (test_demo_year.test_conversations_with_assistants,),
    "claude": (test_demo_year.test_conversations_with_assistants,),
    "slack": (test_demo_year.test_chat_of_slack,),
    "telegram": (test_demo_year.test_chat_of_telegram,),
    "whatsapp": (test_demo_year.test_chat_of_whatsapp,),
    "imessage": (test_databases.test_year_of_messages,),
    "google-keep": (test_takeout.test_year_is_imported_as_it_was,),
    "google-chat": (test_takeout.test_year_is_imported_as_it_was,),
    "google-tasks": (test_takeout.test_year_is_imported_as_it_was,),
    "google-activity": (test_takeout.test_year_is_imported_as_it_was,),
    "evernote": (test_notes.test_year_of_evernote_is_imported_as_it_was,),
    "notion": (test_notes.test_year_of_notion_is_imported_as_it_was,),
    "documents": (
        test_notes.test_year_of_a_vault_is_imported_as_it_was,
        test_text_recognition.test_year_of_scans_and_pictures_is_read_as_it_was_written,
    ),
    "x": (test_social.test_year_of_x_is_imported_as_it_was,),
    "x-messages": (test_social.test_year_of_x_is_imported_as_it_was,),
    "facebook": (test_social.test_year_of_meta_is_imported_as_it_was,),
    "facebook-messages": (test_social.test_year_of_meta_is_imported_as_it_was,),
    "instagram": (test_social.test_year_of_meta_is_imported_as_it_was,),
    "instagram-messages": (test_social.test_year_of_meta_is_imported_as_it_was,),
    "linkedin": (test_habits.test_year_of_habits_is_imported_as_it_was,),
    "linkedin-connections": (test_habits.test_year_of_habits_is_imported_as_it_was,),
    "linkedin-messages": (test_habits.test_year_of_habits_is_imported_as_it_was,),
    "spotify": (test_habits.test_year_of_habits_is_imported_as_it_was,),
    "netflix": (test_habits.test_year_of_habits_is_imported_as_it_was,),
    "amazon": (test_habits.test_year_of_habits_is_imported_as_it_was,),
    "chrome": (test_databases.test_year_of_visits,),
    "firefox": (test_databases.test_year_of_visits,),
    "safari": (test_databases.test_year_of_visits,),
    "gpx": (test_tracks.test_year_of_tracks,),
    "fit": (test_tracks.test_year_of_workouts,),
    "apple-health": (test_demo_year.test_health,),
    "places": (test_demo_year.test_places,),
    "maildir": (test_demo_year.test_mail,),
    "mbox": (test_demo_year.test_mail,),
    "eml": (test_demo_year.test_mail,),
    "msg": (test_outlook.test_year_of_msg_files,),
    "outlook": (test_outlook.test_year_of_a_data_file,),
    "icalendar": (test_demo_year.test_calendar,),
    "vcard": (test_demo_year.test_contacts,),
    "ofx": (test_bank_years.test_year_of_bookings,),
    "camt": (test_bank_years.test_year_of_bookings,),
    "mt940": (test_bank_years.test_year_of_bookings,),
    "qif": (test_bank_years.test_year_of_bookings,),
    "csv": (test_demo_year.test_bank, test_bank_years.test_year_of_bookings),
}
"""The tests that import a generated year, and compare every record with what was generated."""


def test_every_kind_is_read_damaged() -> None:
    """A class of ``ImporterTests`` damages an export of the kind."""
    sources = (path.read_text() for path in TORTURE.parent.rglob("test_*.py"))
    tested = {
        name for text in sources for name in re.findall(r'importer_name = "([a-z0-9-]+)"', text)
    }
    assert tested == KINDS


def test_every_kind_has_a_generated_year() -> None:
    assert set(YEARS) == KINDS


def test_every_kind_has_a_row_in_the_table_of_totals() -> None:
    assert {kind for kinds, _ in EXPORTS for kind in kinds.split()} == KINDS
