"""Limits fixed by the contract, in one place."""

from typing import Final

# Pages of records, changes and search hits.
PAGE_DEFAULT: Final = 25
PAGE_MAX: Final = 100

# Children of one expanded relation.
EXPAND_DEFAULT: Final = 10
EXPAND_MAX: Final = 50

# Field windows, in Unicode code points.
WINDOW_DEFAULT_CHARS: Final = 4_096
WINDOW_MAX_CHARS: Final = 16_384
WINDOW_CONTEXT_MAX_CHARS: Final = 8_192
# How far the end of a window may move to keep a grapheme cluster whole.
WINDOW_GRAPHEME_CHARS: Final = 32

# Groups of an aggregate.
GROUPS_DEFAULT: Final = 10
GROUPS_MAX: Final = 100

# Candidates listed when a request must choose a connection.
CANDIDATES_MAX: Final = 12

# Parameters beyond the contract that change which records or characters are meant. A server that does not
# know them may ignore them, so clients send them only to one whose metadata offers them, by this member.
EXTENSIONS_MEMBER: Final = "pdpp_extension_parameters"
SELECTING_PARAMETERS: Final = frozenset(
    {"after", "before", "match", "occurrence", "quote", "expect_sha256"}
)

# Nested query parameters, as in filter[field][gte].
QUERY_DEPTH_MAX: Final = 8
QUERY_ARRAY_MAX: Final = 64

# Writes: request, blob, record key and label.
INGEST_MAX_BYTES: Final = 50 * 1024 * 1024
BLOB_MAX_BYTES: Final = INGEST_MAX_BYTES
RECORD_KEY_MAX_BYTES: Final = 200
LABEL_MAX_CHARS: Final = 200

# Records of a stream that collectors may delete in a day: so many, or this part of the stream.
COLLECTOR_DELETIONS: Final = 50
COLLECTOR_DELETION_PART: Final = 5

# Range of max_bytes, in UTF-8 bytes of the serialized response. A tool result also contains the next
# steps, so tools require at least MAX_BYTES_LEAST for each channel.
PAGE_BYTES_LEAST: Final = 1_000
MAX_BYTES_LEAST: Final = 4_000
MAX_BYTES_MOST: Final = 50_000

# A value up to this length is shown whole or not at all; only longer ones are cut to a budget.
WHOLE_VALUE_CHARS: Final = 500

# Size limit of the compact schema; a larger one lists only stream names.
COMPACT_SCHEMA_BYTES: Final = 55_000

# Size limits of an MCP tool result by channel, in UTF-8 bytes.
STRUCTURED_BYTES: Final = 10_000
TEXT_BYTES: Final = 4_000
SEARCH_STRUCTURED_BYTES: Final = 11_500
SEARCH_TEXT_BYTES: Final = 5_000
AGGREGATE_TEXT_BYTES: Final = 400
READ_BYTES: Final = 8_000

# MCP endpoint: tool list, instructions and descriptions.
TOOLS_LIST_BYTES: Final = 9_000
INSTRUCTIONS_CHARS: Final = 2_000
INSTRUCTIONS_LEAD_CHARS: Final = 512
DESCRIPTION_CHARS: Final = 700

# Event subscriptions, in seconds. EVENT_RETRIES are the delays after each failed attempt. A delay that
# the receiver requests (Retry-After) uses none of them, up to EVENT_DEFERRED_MOST.
EVENT_RETRIES: Final = (30, 120, 600, 3_600, 21_600, 86_400)
EVENT_JITTER: Final = 0.2
EVENT_TIMEOUT: Final = 10
EVENT_RETRY_AFTER: Final = 60
EVENT_RETRY_AFTER_MOST: Final = 86_400
EVENT_DEFERRED_MOST: Final = 3 * 86_400
EVENT_SECRET_OVERLAP: Final = 86_400
CALLBACK_URL_BYTES: Final = 2_048
SUBSCRIPTIONS_PER_PACKAGE: Final = 20

# OAuth lifetimes in seconds: codes, access tokens with and without refresh token, unused refresh tokens,
# time for which a used refresh token may be used again, and pending authorization requests.
CODE_SECONDS: Final = 120
ACCESS_SECONDS: Final = 600
UNREFRESHED_SECONDS: Final = 3_600
REFRESH_SECONDS: Final = 90 * 86_400
REFRESH_GRACE_SECONDS: Final = 10
QUESTION_SECONDS: Final = 300
POLL_SECONDS: Final = 2
OPEN_QUESTIONS: Final = 50

# Client registrations per hour, per address and in total, and the lifetime of an unused one.
REGISTRATIONS_PER_ADDRESS: Final = 20
REGISTRATIONS_PER_HOUR: Final = 200
REGISTRATION_UNUSED_SECONDS: Final = 3 * 86_400
REGISTRATION_BYTES: Final = 32 * 1024

# Invisible characters, which models receive as escapes: format characters, line separators, controls,
# variation selectors and blank fillers. A test compares the ranges with unicodedata.
INVISIBLE: Final = (
    (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD),
    (0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
