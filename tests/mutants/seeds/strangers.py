"""Limits and deadlines for whoever has no credential."""

from tests.mutants.seeds.mutant import Mutant

BODIES = "pdpp_site/request_bodies.py"
CONNECTIONS = "pdpp_site/connections.py"
READ = "tests/pdpp_site/test_request_bodies.py::"
HELD = "tests/pdpp_site/test_connections.py::"

SEEDS = (
    Mutant("a large body is read before its credential is checked", BODIES,
        "        await self._check(route.check, scope)\n", "",
        by=READ + "test_a_large_body_is_not_read_before_the_owners_token_is_checked"),
    Mutant("a large form is read from anybody with a cookie", "pdpp_site/credentials.py",
        'getattr(answer, "status_code", None) == 204', "True",
        by=READ + "test_a_large_form_is_not_read_before_the_owners_session_is_checked"),
    Mutant("a client's token may send a large body", "pdpp_site/credentials.py",
        "if authority.kind is not TokenKind.OWNER:", "if False:",
        by=READ + "test_a_large_body_is_not_read_before_the_owners_token_is_checked"),
    Mutant("any route takes a large body", BODIES,
        "limit=SMALL_BYTES)", "limit=50 * 1024 * 1024)",
        by=READ + "test_a_form_over_64_kib_is_refused_whatever_its_headers_claim"),
    Mutant("a body has a deadline between its parts alone", BODIES,
        "patience = min(patience + earned, LONGEST_PAUSE_SECONDS)", "patience = GRACE_SECONDS",
        by=READ + "test_a_body_that_comes_byte_by_byte_ends_after_the_deadline_in_total"),
    Mutant("a header has no deadline", CONNECTIONS,
        "            return HEADER_SECONDS\n", "            return KEEP_ALIVE_SECONDS\n",
        by=HELD + "test_a_header_must_arrive_before_its_deadline"),
    Mutant("a header may be of any size", CONNECTIONS,
        "            self._header_bytes += len(data)\n", "            self._header_bytes += 0\n",
        by="tests/faults/test_floods.py::test_a_short_flood_takes_neither_memory_nor_other_clients_time"),
    Mutant("requests are queued without a limit", CONNECTIONS,
        "if len(self.pipeline) >= PIPELINED_REQUESTS:", "if False:",
        by=HELD + "test_very_many_pipelined_requests_end_the_connection"),
    Mutant("the rest of a refused body keeps its connection open", CONNECTIONS,
        'return UNREAD_BODY_SECONDS if self._receiving == "body" else KEEP_ALIVE_SECONDS',
        "return KEEP_ALIVE_SECONDS",
        by=HELD + "test_the_rest_of_a_refused_body_does_not_keep_the_connection_open"),
    Mutant("one client may take every connection", CONNECTIONS,
        "len(theirs) >= self._most_per_client:", "False:",
        by=HELD + "test_a_client_at_its_limit_loses_its_idlest_connection"),
    Mutant("a client that a proxy names has no limit", CONNECTIONS,
        "if self._running[client] >= self._most_per_client:", "if False:",
        by=HELD + "test_a_proxy_has_no_limit_and_the_clients_it_names_have"),
    Mutant("connections may take every file", "pdpp_site/server.py",
        "min(settings.PDPP_CONNECTIONS, raise_file_limit() // 2)", "settings.PDPP_CONNECTIONS",
        by=HELD + "test_connections_take_at_most_half_of_the_files_that_may_be_open"),
)  # fmt: skip
