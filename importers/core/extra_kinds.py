"""Recognize files that only the package pdpp-importers-extra reads, so that a receipt can name it."""

import re

from importers.core.export_files import ExportFile

EXTRA_PACKAGE = "pdpp_importers_extra"

_KINDS = tuple(
    (title, re.compile(name, re.I), re.compile(head, re.S))
    for title, name, head in (
        ("Outlook", r"\.(?:msg|pst|ost)$", rb"\xd0\xcf\x11\xe0|!BDN"),
        ("FIT", "", rb".{8}\.FIT"),
        ("browser history", r"(?:^|/)(?:History|places\.sqlite|History\.db)$", rb"SQLite format 3"),
        (
            "browser history",
            "",
            rb"SQLite format 3.*CREATE TABLE (?:urls|visits|moz_places|history_items)\b",
        ),
        ("Google Chat", r"(?:^|/)Google Chat/", b""),
        ("Google Tasks", r"\.json$", rb'.*"tasks#taskLists"'),
        (
            "Facebook or Instagram",
            r"(?:^|/)(?:your_(?:facebook|instagram)_activity|friends_and_followers"
            r"|(?:connections/)?followers_and_following|comments_and_reactions"
            r"|likes_and_reactions|posts/your_posts|content/posts_)",
            b"",
        ),
        (
            "Facebook or Instagram",
            r"\.json$",
            rb'(?=.*"(?:participants|participant_name)")(?=.*"(?:timestamp_ms|threadName)")',
        ),
        ("X", r"(?:^|/)(?:tweets?|community_tweet|direct_messages\w*)_media/", b""),
        ("X", r"\.js$", rb"\s*(?:\xef\xbb\xbf)?\s*window\.(?:YTD|__THAR_CONFIG)"),
        (
            "LinkedIn",
            r"\.csv$",
            rb"(?=.*First Name,Last Name,).*Connected On|.*Company Name,Title,Description,"
            rb"|.*CONVERSATION ID,",
        ),
        ("Spotify", r"\.json$", rb'.*"(?:ms_played|msPlayed)"'),
        ("Netflix", r"\.csv$", rb".{0,8}Profile Name.{0,3}Start Time"),
        ("Netflix", r"(?:netflix|viewing).*\.csv$", rb".{0,8}Title.{0,3}Date"),
        ("Amazon", r"\.csv$", rb"(?=.*Order ID)(?=.*ASIN)(?=.*Product Name)"),
    )
)


def extra_kind(file: ExportFile) -> str | None:
    """Return what a file is that only the extra package reads, such as "Spotify"."""
    path = f"{file.export}/{file.name}"
    for title, name, head in _KINDS:
        if name.search(path) and head.match(file.head):
            return title
    return None
