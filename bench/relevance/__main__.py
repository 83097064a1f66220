"""`make relevance`: run every judged query and print the scores.

Fails if a score is below `thresholds.toml`. `--short` checks only that, `--json FILE` writes the scores,
and `--keep DIRECTORY` keeps the database with the demo data for the next run.
"""

import argparse
import json
import sys
from pathlib import Path

from bench import results
from bench.relevance import engines, judged, report
from bench.relevance.installation import demo_database
from bench.relevance.thresholds import failures


def main() -> int:
    arguments = _parse_arguments()
    queries = judged.load()
    with demo_database(arguments.keep) as token:
        scores_by_mode = {
            mode: engines.score(engines.rest(token, mode=mode), queries)
            for mode in engines.modes(token)
        }
        if not arguments.short:
            scores_by_mode["baseline"] = engines.score(engines.baseline(), queries)
    if not arguments.short:
        tables = report.tables(queries, scores_by_mode)
        sys.stdout.write(f"{tables}\n{report.detailed_table(queries, scores_by_mode)}")
        results.write("Search quality", tables)
    if arguments.json is not None:
        summary = report.summary(queries, scores_by_mode)
        arguments.json.write_text(json.dumps(summary, ensure_ascii=False, indent=1) + "\n")
    failed = [
        line for mode, scores in scores_by_mode.items() for line in failures(mode, queries, scores)
    ]
    sys.stdout.write(
        "".join(f"{line}\n" for line in failed) or "All scores reach their thresholds.\n"
    )
    return 1 if failed else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make relevance", description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
