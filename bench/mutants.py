"""Mutation tests of the access rules: change the code in small ways and report what no test notices.

`make mutants` runs mutmut (see [tool.mutmut] in pyproject.toml) for each module of TESTS against a
scratch database. It fails if a change survives that tests/survivors.toml does not list, or if a
listed change no longer survives, so the list can only shrink. ARGS="tokens scope" selects modules.
ARGS="--sample gate" takes the first change of each function, as CI does.
"""

import importlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from operations.postgres import server as embedded_postgres

SURVIVORS = Path("tests/survivors.toml")
TESTS = {
    "evidence/access/scope.py": [
        "tests/access/test_gate.py",
        "tests/access/test_tokens.py",
        "tests/api/test_grants_that_differ.py",
        "tests/api/test_list_records.py",
        "tests/api/test_refused_calls.py",
    ],
    "evidence/access/crypto.py": ["tests/access/test_cursors.py", "tests/access/test_tokens.py"],
    "evidence/access/grant_terms.py": ["tests/access/test_grant_terms.py"],
    "evidence/access/gate.py": [
        "tests/access/test_gate.py",
        "tests/api/test_paused_beside.py",
        "tests/api/test_permission_requests.py",
    ],
    "evidence/access/tokens.py": [
        "tests/access/test_tokens.py",
        "tests/access/test_grant_extensions.py",
    ],
    "evidence/record_ids.py": ["tests/test_record_ids.py"],
    "evidence/search/analysis/segmentation.py": [
        "tests/search/test_words.py",
        "tests/search/test_folding.py",
    ],
}
"""Modules to mutate, and the tests that must notice. Few, because every mutant runs them."""


class Change(NamedTuple):
    """One mutant: the lines of a function before and after, without indentation."""

    function: str
    before: str
    after: str

    def as_toml(self) -> str:
        """Return an entry for the list of survivors."""
        values = (f"{name} = '''{value}'''" for name, value in self._asdict().items())
        return "\n".join(["[[survivor]]", *values, 'reason = ""', ""])


SAMPLE = "--sample"
FIRST_OF_EACH_FUNCTION = "*__mutmut_1"


def main(arguments: list[str]) -> int:
    """Mutate the named modules, or all. Returns the exit status."""
    sample = [SAMPLE] if SAMPLE in arguments else []
    names = {*arguments} - {SAMPLE}
    paths = [path for path in TESTS if not names or Path(path).stem in names]
    with tempfile.TemporaryDirectory(prefix="pdpp-mutants-") as folder:
        server = embedded_postgres.EmbeddedPostgres(Path(folder), scratch=True)
        server.start()
        environment = os.environ | {
            "CI": "true",  # Hypothesis draws the same examples for every mutant
            "DATABASE_URL": embedded_postgres.url(Path(folder)),
            "PDPP_DATABASE_POOL": "0",
            "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        }
        try:
            # mutmut keeps its settings in the process, so each module has its own process.
            runs = [
                subprocess.run(
                    [sys.executable, "-m", __spec__.name, path, *sample], env=environment
                )
                for path in paths
            ]
        finally:
            server.stop()
    return max(run.returncode for run in runs)


def run_module(path: str, *, is_sample: bool = False) -> int:
    """Mutate one module and compare the survivors with the list. Returns the exit status."""
    _run_mutmut(path, [FIRST_OF_EACH_FUNCTION] if is_sample else [])
    unnoticed = {"survived", "no tests", "suspicious", "segfault", "skipped"}
    survivors = Counter(_survivors(path, unnoticed if is_sample else unnoticed | {"not checked"}))
    module = path.removesuffix(".py").replace("/", ".")
    listed = Counter(each for each in listed_changes() if each.function.startswith(f"{module}."))
    noticed = Counter[Change]() if is_sample else listed - survivors
    for change in survivors - listed:
        sys.stdout.write(f"\nNo test notices this change:\n{change.as_toml()}")
    for change in noticed:
        sys.stdout.write(f"\nA test notices this change, so unlist it:\n{change.as_toml()}")
    sys.stdout.write(f"\n{path}: {survivors.total()} survivors, {listed.total()} listed.\n")
    return int(bool(survivors - listed or noticed))


def listed_changes() -> list[Change]:
    """Return the changes in tests/survivors.toml."""
    document = tomllib.loads(SURVIVORS.read_text())
    return [
        Change(each["function"], each["before"], each["after"])
        for each in document.get("survivor", [])
    ]


def _run_mutmut(path: str, mutants: list[str]) -> None:
    from mutmut.__main__ import cli
    from mutmut.configuration import config
    from mutmut.mutation import mutators
    from mutmut.runners.harness import PytestRunner

    settings = config()
    settings.only_mutate = [path]
    settings.pytest_add_cli_args_test_selection = TESTS[path]
    mutators.mutation_operators[:] = [
        (kind, _mutate_code if mutate is mutators.operator_string else mutate)
        for kind, mutate in mutators.mutation_operators
    ]
    collect = PytestRunner.warm_up

    def warm_up(runner: PytestRunner) -> None:
        collect(runner)
        importlib.import_module("pdpp_site.urls")  # takes a second, once instead of per mutant

    PytestRunner.warm_up = warm_up
    shutil.rmtree("mutants", ignore_errors=True)
    cli(["run", "--max-children", "1", *mutants], standalone_mode=False)


def _mutate_code(node: object) -> Iterator[object]:
    """Mutate a string once, unless it has spaces: tests do not repeat sentences for people."""
    from mutmut.mutation import mutators

    if " " not in str(getattr(node, "value", "")):
        yield from list(mutators.operator_string(node))[:1]


def _survivors(path: str, unnoticed: Collection[str]) -> Iterator[Change]:
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    data = SourceFileMutationData(path=Path(path))
    data.load()
    for name, exit_code in data.exit_code_by_key.items():
        if status_by_exit_code[exit_code] in unnoticed:
            yield _change(name, get_diff_for_mutant(name, path=path))


def _change(mutant: str, diff: str) -> Change:
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    function, class_name = orig_function_and_class_names_from_key(mutant)
    names = [mutant.rpartition(".")[0], class_name, function]
    lines = [line for line in diff.split("\n") if line[:3] not in {"---", "+++"}]
    before = (line[1:].strip() for line in lines if line.startswith("-"))
    after = (line[1:].strip() for line in lines if line.startswith("+"))
    return Change(".".join(filter(None, names)), "\n".join(before), "\n".join(after))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments and arguments[0] in TESTS:
        sys.exit(run_module(arguments[0], is_sample=SAMPLE in arguments))
    sys.exit(main(arguments))
