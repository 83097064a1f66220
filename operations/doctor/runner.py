"""The steps in their order; a step that needs another one is skipped where that one failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import httpx2

from operations.doctor import (
    discovery_checks,
    oauth_checks,
    server_checks,
)
from operations.doctor.findings import Finding, Outcome, Unseen, Wrong
from operations.doctor.http_probe import Asking
from operations.doctor.probe import ANY, HOSTS, State

Try: TypeAlias = Callable[[State], str]
"""Tries something; gives what it saw, or raises `Wrong` or `Unseen`."""


@dataclass(frozen=True, slots=True)
class Step:
    """`needs` are the steps without which this one has nothing to go by."""

    name: str
    tried: str
    run: Try
    needs: tuple[str, ...] = ()


STEPS = (
    Step("challenge", "Ask /mcp without a token", discovery_checks.challenge),
    Step("bearer", "Ask with a made-up token", discovery_checks.bearer_arrives, ("challenge",)),
    Step("get", "Ask with GET", discovery_checks.other_methods, ("challenge",)),
    Step("bodies", "Send a large body", server_checks.large_bodies, ("challenge",)),
    Step("answers", "Look at the answer itself", server_checks.unaltered, ("challenge",)),
    Step("metadata", "Read what the resource is", discovery_checks.metadata, ("challenge",)),
    Step("server", "Read where to sign in", discovery_checks.authorization_server, ("metadata",)),
    Step("address", "Compare the address with the host", oauth_checks.reachable),
    Step("registration", "Register as the host", oauth_checks.registration, ("server",)),
    Step("consent", "Open the page of the owner", oauth_checks.owners_page, ("registration",)),
    Step("token", "Redeem a made-up code", oauth_checks.token, ("registration",)),
    Step("beside", "Ask what goes on beside requests", server_checks.goes_on, ("challenge",)),
    Step("tools", "List the tools", server_checks.listed, ("bearer",)),
    Step("search", "Search", server_checks.searched, ("tools",)),
    Step("fetch", "Fetch what was found", server_checks.fetched, ("search",)),
)
WITH_TOKEN = frozenset({"tools", "search", "fetch"})


def diagnose(
    url: str, client: httpx2.Client, *, host: str = "", bearer: str | None = None
) -> list[Finding]:
    """Walk to `url` (a server, or its /mcp) as a host does; `host` is a key of `HOSTS`, or empty.

    Registers a client, which expires unused, and reads with `bearer` only where one is given: the
    owner's own answer on the consent page is nobody's to give but theirs.
    """
    state = State(_endpoint(url), HOSTS.get(host, ANY), Asking(client), bearer)
    findings: list[Finding] = []
    for step in STEPS:
        findings.append(_taken(step, state, findings))
    return findings


def _endpoint(url: str) -> str:
    plain = url if "://" in url else f"https://{url}"
    plain = plain.rstrip("/")
    return plain if plain.endswith("/mcp") else f"{plain}/mcp"


def _taken(step: Step, state: State, before: Sequence[Finding]) -> Finding:
    open_ends = {
        finding.step for finding in before if finding.outcome in {Outcome.FAILS, Outcome.SKIPPED}
    }
    if missing := [name for name in step.needs if name in open_ends]:
        return _skipped(step, f"It needs the step {missing[0]}, which did not come to its end.")
    if step.name in WITH_TOKEN and state.bearer is None:
        return _skipped(step, "It needs a token of a grant, and none was given.")
    try:
        seen = step.run(state)
    except Unseen as why:
        return _skipped(step, str(why))
    except Wrong as found:
        diagnosis = found.diagnosis
        return Finding(
            step=step.name,
            tried=step.tried,
            outcome=diagnosis.outcome,
            seen=diagnosis.seen,
            code=diagnosis.code,
            side=diagnosis.side,
            change=diagnosis.change,
        )
    return Finding(step=step.name, tried=step.tried, outcome=Outcome.WORKS, seen=seen)


def _skipped(step: Step, why: str) -> Finding:
    return Finding(step=step.name, tried=step.tried, outcome=Outcome.SKIPPED, seen=why)
