"""The numbers that the contract fixes, each in one place; nothing else."""

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
# How far the end of a window may move so that a grapheme stays whole.
WINDOW_GRAPHEME_CHARS: Final = 32

# Groups of an aggregate.
GROUPS_DEFAULT: Final = 10
GROUPS_MAX: Final = 100

# Candidates named when a request must say which connection it means.
CANDIDATES_MAX: Final = 12

# Nested query parameters, as in filter[field][gte].
QUERY_DEPTH_MAX: Final = 8
QUERY_ARRAY_MAX: Final = 64

# Writing. One request, one line of it, and the identity of one record.
INGEST_MAX_BYTES: Final = 50 * 1024 * 1024
BLOB_MAX_BYTES: Final = INGEST_MAX_BYTES
RECORD_KEY_MAX_BYTES: Final = 200
LABEL_MAX_CHARS: Final = 200

# What a caller may ask for with max_bytes: UTF-8 bytes of the serialized answer. A tool's result has
# two channels and takes no less than the second; each of them is a smaller answer of REST.
PAGE_BYTES_LEAST: Final = 1_000
MAX_BYTES_LEAST: Final = 4_000
MAX_BYTES_MOST: Final = 50_000

# The compact schema as a whole; larger ones only name their streams.
COMPACT_SCHEMA_BYTES: Final = 55_000

# What one MCP tool result may take, by channel, in UTF-8 bytes.
STRUCTURED_BYTES: Final = 10_000
TEXT_BYTES: Final = 4_000
SEARCH_TEXT_BYTES: Final = 1_800
AGGREGATE_TEXT_BYTES: Final = 400
READ_BYTES: Final = 8_000

# What the MCP endpoint says of itself.
TOOLS_LIST_BYTES: Final = 9_000
INSTRUCTIONS_CHARS: Final = 2_000
INSTRUCTIONS_LEAD_CHARS: Final = 512
DESCRIPTION_CHARS: Final = 700

# Event subscriptions, in seconds. The waits are those after each failed attempt; a receiver that
# names its own wait uses up none of them, but not for ever.
EVENT_RETRIES: Final = (30, 120, 600, 3_600, 21_600, 86_400)
EVENT_JITTER: Final = 0.2
EVENT_TIMEOUT: Final = 10
EVENT_RETRY_AFTER: Final = 60
EVENT_RETRY_AFTER_MOST: Final = 86_400
EVENT_DEFERRED_MOST: Final = 3 * 86_400
EVENT_SECRET_OVERLAP: Final = 86_400
CALLBACK_URL_BYTES: Final = 2_048
SUBSCRIPTIONS_PER_PACKAGE: Final = 20

# A read that waits for changes, in seconds: less than most proxies wait for an answer.
WAIT_SECONDS: Final = 50
WAITING_MOST: Final = 256

# Signing in, in seconds: what a code, a refreshed token, a refresh token left unused and a question
# to the owner are good for. A token without refresh lasts longer, for there is no other.
CODE_SECONDS: Final = 120
ACCESS_SECONDS: Final = 600
UNREFRESHED_SECONDS: Final = 3_600
REFRESH_SECONDS: Final = 90 * 86_400
QUESTION_SECONDS: Final = 300
POLL_SECONDS: Final = 2
OPEN_QUESTIONS: Final = 50

# Programs that register themselves: how many in an hour from one address and from all together, and
# how long a registration is kept that nobody has signed in with.
REGISTRATIONS_PER_ADDRESS: Final = 20
REGISTRATIONS_PER_HOUR: Final = 200
REGISTRATION_UNUSED_SECONDS: Final = 3 * 86_400
REGISTRATION_BYTES: Final = 32 * 1024

# Characters that nobody sees, which models are shown as escapes: what Unicode calls format characters,
# separators of lines, controls, variation selectors and fillers that draw nothing. A test holds this
# against unicodedata.
INVISIBLE: Final = (
    (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD),
    (0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x2800, 0x2800),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
