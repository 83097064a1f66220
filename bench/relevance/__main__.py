"""`make relevance`: put every judged query to search, and say how well it did.

`--json FILE` writes the figures; `--keep DIRECTORY` loads the demo life there, for the next time.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.relevance import engines, judged, report
from bench.relevance.installation import demo_life
from bench.relevance.judged import Judged, Worth


def main() -> int:
    arguments = _arguments()
    queries = judged.load()
    with demo_life(arguments.keep) as token:
        results = {"lexical": _worth(queries, engines.rest(token))}
        results["baseline"] = _worth(queries, engines.baseline())
    sys.stdout.write(report.tables(queries, results))
    if arguments.json is not None:
        figures = report.summary(queries, results)
        arguments.json.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n")
    return 0


def _worth(queries: Sequence[Judged], engine: engines.Engine) -> list[Worth]:
    return [judged.worth(engine(query.text), query.grades) for query in queries]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make relevance", description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
