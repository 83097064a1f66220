"""Matching: where the leaves of a query occur in a text, and whether a text satisfies a query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from evidence.analyser.analysed import Token, Wanted
from evidence.analyser.patterns import Pattern, Step, Terms, pattern
from evidence.analyser.queries import And, Leaf, Node, Not, Or, Query
from evidence.analyser.tokens import occurrences
from evidence.analyser.work import WorkLimit


def phrase_matches(text: str, query: Query, *, languages: tuple[str, ...], field: str = "") -> bool:
    """Whether one text satisfies the query, phrases in order; `field` is the name it goes by."""
    return verify({field: text}, query, languages=languages)


def needs_verification(query: Query, *, languages: tuple[str, ...]) -> bool:
    """Whether the index returns more than matches: phrases have an order that lexemes do not keep."""
    excluded = any(not pattern(leaf, languages=languages).atomic for leaf in query.excluded())
    return excluded or any(_ordered(leaf, languages=languages) for leaf in query.wanted())


def verify(
    texts: Mapping[str, str],
    query: Query,
    *,
    languages: tuple[str, ...],
    work: WorkLimit | None = None,
) -> bool:
    """Whether a record with these texts by field name satisfies the query.

    As in the index, the words of a query may be in different fields; a phrase must be in one. False
    where `work` is exhausted before the answer is certain.
    """
    work = work or WorkLimit()
    seen = {leaf: _Seen(leaf, languages=languages) for leaf in query.wanted()}
    for leaf in query.excluded():
        # "-e-mail" must not exclude a text in which "e" and "mail" are far apart.
        seen[leaf] = _Seen(replace(leaf, phrase=True), languages=languages)
    for name, text in texts.items():
        here = [each for leaf, each in seen.items() if leaf.field in (None, name)]
        wanted = wanted_by([each.asked for each in here])
        for each in here:
            each.start_text()
        found = occurrences(text, languages=languages, wanted=wanted, work=work)
        for token in found if here else ():
            work.spend(len(here))
            for each in here:
                each.feed(token)
            if work.exhausted or all(each.settled for each in here):
                break
        if work.exhausted:
            return False
    return _satisfied(query.root, seen)


def wanted_by(patterns: Sequence[Pattern]) -> Wanted:
    """Every term that a step of the patterns could take."""
    asked = [step.terms for each in patterns for step in each.steps]
    return Wanted(
        frozenset(term for terms in asked if not terms.prefix for term in terms.terms),
        tuple({term for terms in asked if terms.prefix for term in terms.terms}),
    )


class Walker:
    """Follows the steps of a pattern through the tokens of one text, which come in order."""

    def __init__(self, asked: Pattern) -> None:
        self._asked = asked
        self._exact: dict[str, list[Step]] = defaultdict(list)
        self._prefix: list[Step] = []
        for step in asked.steps:
            if step.terms.prefix:
                self._prefix.append(step)
            for term in () if step.terms.prefix else step.terms.terms:
                self._exact[term].append(step)
        self.most_steps = max(map(len, self._exact.values()), default=0) + len(self._prefix)
        """How many steps one token can take: a query may repeat one word a thousand times."""
        # Where a partial match stands: text position -> pattern position -> where it began.
        self._standing: dict[int, dict[int, int]] = {}

    def feed(self, token: Token) -> Iterator[tuple[int, int]]:
        """The matches that `token` completes, as start and end in the text."""
        standing = self._standing.get(token.position, {})
        for step in self.steps(token):
            began = token.start if step.source == 0 else standing.get(step.source)
            if began is None:
                continue
            if step.target == self._asked.end:
                yield began, token.end
                continue
            following = token.position + (
                step.target - step.source if step.overlapping else token.width
            )
            self._standing.setdefault(following, {}).setdefault(step.target, began)
        self._forget(token.position)

    def steps(self, token: Token) -> Sequence[Step]:
        """The steps that `token` could take."""
        exact = {step: None for term in token.terms for step in self._exact.get(term, ())}
        begun = (s for s in self._prefix if any(t.startswith(s.terms.terms) for t in token.terms))
        return [*exact, *begun]

    def _forget(self, position: int) -> None:
        for passed in [at for at in self._standing if at < position]:
            del self._standing[passed]


class _Seen:
    """What was seen of one leaf in the texts of a record."""

    def __init__(self, leaf: Leaf, *, languages: tuple[str, ...]) -> None:
        self.asked = pattern(leaf, languages=languages)
        self._ordered = _ordered(leaf, languages=languages)
        self.settled = False
        self._met: set[Terms] = set()
        self.start_text()

    def start_text(self) -> None:
        """A match does not run from one text into the next."""
        self._walker = Walker(self.asked)

    def feed(self, token: Token) -> None:
        """Take note of one token."""
        if self.settled:
            return
        if self._ordered:
            self.settled = any(True for _ in self._walker.feed(token))
        else:
            self._met.update(step.terms for step in self._walker.steps(token))
            self.settled = self._all_met()

    def _all_met(self) -> bool:
        return all(
            any(self._met.issuperset(alternative) for alternative in group.alternatives)
            for group in self.asked.groups
        )


def _ordered(leaf: Leaf, *, languages: tuple[str, ...]) -> bool:
    return leaf.phrase and not pattern(leaf, languages=languages).atomic


def _satisfied(node: Node, seen: Mapping[Leaf, _Seen]) -> bool:
    match node:
        case Leaf():
            return seen[node].settled
        case Not():
            return not _satisfied(node.node, seen)
        case And():
            return all(_satisfied(child, seen) for child in node.nodes)
        case Or():
            return any(_satisfied(child, seen) for child in node.nodes)
