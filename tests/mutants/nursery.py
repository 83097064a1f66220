"""Runs tests again and again without starting Python again: `python -m tests.mutants.nursery`.

Each line of standard input is a JSON list of arguments for pytest; each line of output is its exit
code. What the tests import from others is imported once, here; the project itself, which may hold a
fault by then, only in the process that is forked for each line.
"""

import json
import os
import signal
import sys

import psycopg  # noqa: F401 - imported for the forks
import pytest
import regex  # noqa: F401
import rest_framework.views  # noqa: F401
from django.core.handlers import wsgi  # noqa: F401

# To read the settings is to import what they import, and a fault may stand there as well.
for each in [name for name in sys.modules if name.partition(".")[0] == "pdpp_site"]:
    del sys.modules[each]

SECONDS = 180
TOO_LONG = 124


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(f"{_run(json.loads(line))}\n")
        sys.stdout.flush()


def _run(arguments: list[str]) -> int:
    child = os.fork()
    if child == 0:
        _be_quiet()
        signal.alarm(SECONDS)
        os._exit(pytest.main(arguments))
    _, status = os.waitpid(child, 0)
    return TOO_LONG if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _be_quiet() -> None:
    with open(os.environ.get("PDPP_MUTANTS_LOG", os.devnull), "a") as nowhere:  # noqa: PTH123 - a descriptor, not a file
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)


if __name__ == "__main__":
    main()
