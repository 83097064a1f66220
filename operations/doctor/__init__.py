"""Diagnose why an agent cannot connect, over HTTP only, as an MCP host would.

The steps know nothing about the server except its responses, so they also diagnose remote
installations, and they notice proxies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx2

from operations.doctor import checks
from operations.doctor.http_probe import (
    DEFAULT_HOST,
    HOSTS,
    Finding,
    HttpProbe,
    Outcome,
    ProbeState,
    Side,
    StepFailedError,
    StepSkippedError,
)

__all__ = ["HOSTS", "Finding", "Outcome", "Side", "diagnose"]


@dataclass(frozen=True, slots=True)
class Step:
    """A diagnostic step and the names of the steps whose results it uses.

    `run` returns what it saw, or raises StepFailedError or StepSkippedError.
    """

    name: str
    tried: str
    run: Callable[[ProbeState], str]
    needs: tuple[str, ...] = ()


STEPS = (
    Step("challenge", "Request /mcp without a token", checks.check_challenge),
    Step("bearer", "Send an invalid token", checks.check_bearer, ("challenge",)),
    Step("get", "Send a GET request", checks.check_get, ("challenge",)),
    Step("bodies", "Send a large body", checks.check_large_body, ("challenge",)),
    Step("answers", "Check the response body", checks.check_response_body, ("challenge",)),
    Step("metadata", "Read the resource metadata", checks.check_resource, ("challenge",)),
    Step("server", "Read the sign-in metadata", checks.check_server, ("metadata",)),
    Step("address", "Compare the address with the host", checks.check_address),
    Step("registration", "Register as the host", checks.check_registration, ("server",)),
    Step("consent", "Open the consent page", checks.check_consent_page, ("registration",)),
    Step("token", "Redeem an invalid code", checks.check_token_endpoint, ("registration",)),
    Step("beside", "Check background jobs", checks.check_background_jobs, ("challenge",)),
    Step("tools", "List the tools", checks.check_tools, ("bearer",)),
    Step("search", "Search", checks.check_search, ("tools",)),
    Step("fetch", "Fetch a search result", checks.check_fetch, ("search",)),
)
STEPS_WITH_TOKEN = frozenset({"tools", "search", "fetch"})


def diagnose(
    url: str, client: httpx2.Client, *, host: str = "", bearer: str | None = None
) -> list[Finding]:
    """Run all steps against a server URL or its /mcp endpoint. `host` is a key of `HOSTS` or empty.

    Registers a client, which expires unused. Skips the steps that read records without `bearer`.
    """
    http = HttpProbe(client)
    state = ProbeState(_mcp_endpoint(url), HOSTS.get(host, DEFAULT_HOST), http, bearer)
    findings: list[Finding] = []
    for step in STEPS:
        findings.append(_run_step(step, state, findings))
    return findings


def _mcp_endpoint(url: str) -> str:
    endpoint = (url if "://" in url else f"https://{url}").rstrip("/")
    return endpoint if endpoint.endswith("/mcp") else f"{endpoint}/mcp"


def _run_step(step: Step, state: ProbeState, findings: Sequence[Finding]) -> Finding:
    unfinished = {
        finding.step for finding in findings if finding.outcome in {Outcome.FAILS, Outcome.SKIPPED}
    }
    if missing := [name for name in step.needs if name in unfinished]:
        tried = next(other.tried for other in STEPS if other.name == missing[0])
        return _skipped(step, f"“{tried}” did not finish.")
    if step.name in STEPS_WITH_TOKEN and state.bearer is None:
        return _skipped(step, "Set PDPP_MCP_TOKEN to a grant's token.")
    try:
        seen = step.run(state)
    except StepSkippedError as error:
        return _skipped(step, str(error))
    except StepFailedError as error:
        return Finding(
            step=step.name,
            tried=step.tried,
            outcome=error.outcome,
            seen=error.seen,
            code=error.code,
            side=error.side,
            change=error.change,
        )
    return Finding(step=step.name, tried=step.tried, outcome=Outcome.WORKS, seen=seen)


def _skipped(step: Step, reason: str) -> Finding:
    seen = f"Skipped: {reason}"
    return Finding(step=step.name, tried=step.tried, outcome=Outcome.SKIPPED, seen=seen)
