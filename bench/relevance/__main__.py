"""`make relevance`: put every judged query to search, and say how well it did.

Fails where search is worse than `levels.toml` says. `--short` asks for no more than that;
`--json FILE` writes the figures; `--keep DIRECTORY` loads the demo life there, for the next time.
"""

import argparse
import json
import sys
from pathlib import Path

from bench.relevance import engines, judged, report
from bench.relevance.installation import demo_life
from bench.relevance.levels import missed


def main() -> int:
    arguments = _arguments()
    queries = judged.load()
    with demo_life(arguments.keep) as token:
        results = {
            mode: engines.worth(engines.rest(token, mode=mode), queries)
            for mode in engines.modes(token)
        }
        if not arguments.short:
            results["baseline"] = engines.worth(engines.baseline(), queries)
    if not arguments.short:
        sys.stdout.write(report.tables(queries, results))
    if arguments.json is not None:
        figures = report.summary(queries, results)
        arguments.json.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n")
    short = [line for mode, each in results.items() for line in missed(mode, queries, each)]
    sys.stdout.write("".join(f"{line}\n" for line in short) or "Every level is reached.\n")
    return 1 if short else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make relevance", description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
