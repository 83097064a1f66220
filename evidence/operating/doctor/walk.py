"""The steps in their order; a step that needs another one is skipped where that one failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import httpx2

from evidence.operating.doctor import beside, discovery, sign_in, tools, way
from evidence.operating.doctor.asking import Asking
from evidence.operating.doctor.findings import Finding, Outcome, Unseen, Wrong
from evidence.operating.doctor.hosts import ANY, HOSTS
from evidence.operating.doctor.state import State

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
    Step("challenge", "Ask /mcp without a token", discovery.challenge),
    Step("bearer", "Ask with a made-up token", discovery.bearer_arrives, ("challenge",)),
    Step("get", "Ask with GET", discovery.other_methods, ("challenge",)),
    Step("bodies", "Send a large body", way.large_bodies, ("challenge",)),
    Step("answers", "Look at the answer itself", way.unaltered, ("challenge",)),
    Step("metadata", "Read what the resource is", discovery.metadata, ("challenge",)),
    Step("server", "Read where to sign in", discovery.authorization_server, ("metadata",)),
    Step("address", "Compare the address with the host", sign_in.reachable),
    Step("registration", "Register as the host", sign_in.registration, ("server",)),
    Step("consent", "Open the page of the owner", sign_in.owners_page, ("registration",)),
    Step("token", "Redeem a made-up code", sign_in.token, ("registration",)),
    Step("beside", "Ask what goes on beside requests", beside.goes_on, ("challenge",)),
    Step("tools", "List the tools", tools.listed, ("bearer",)),
    Step("search", "Search", tools.searched, ("tools",)),
    Step("fetch", "Fetch what was found", tools.fetched, ("search",)),
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
