"""`python -m bench.owner_pages`: load a million records of all kinds, and measure the owner's pages.

SIZES=10k,1m (default 1m) and BENCH_HOME are those of `make bench`.
"""

import os
import subprocess
import sys
from pathlib import Path

from bench.owner_pages.corpus import prepare
from bench.served import ROOT
from bench.speed.__main__ import HOME, parse_size
from bench.speed.installation import Installation


def main() -> None:
    home = Path(os.environ.get("BENCH_HOME") or HOME)
    for text in (os.environ.get("SIZES") or "1m").split(","):
        size = parse_size(text)
        corpus = prepare(home / f"owner-corpus-{size}", size=size)
        installation = Installation(home / f"owner-{size}")
        installation.manage("migrate", "--verbosity", "0")
        if not installation.notes:
            sys.stderr.write(f"loading {corpus.size:,} records\n")
            installation.save_notes({"ingest": installation.ingest(corpus)})
        sys.stdout.write(f"{corpus.size:,} records\n\n")
        sys.stdout.flush()
        subprocess.run(
            [sys.executable, "-m", "bench.owner_pages.measure"],
            cwd=ROOT,
            env=installation.environment(
                PDPP_DATABASE_POOL="0", DJANGO_SETTINGS_MODULE="pdpp_site.settings"
            ),
            check=True,
        )


if __name__ == "__main__":
    main()
