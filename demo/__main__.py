"""`python -m demo DIR`: write the demo data as files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from demo import life


def write(folder: Path) -> int:
    """Write records.jsonl, connections.json, declarations/*.json and blobs/. Returns the record count."""
    (folder / "declarations").mkdir(parents=True, exist_ok=True)
    (folder / "blobs").mkdir(exist_ok=True)
    for declaration in life.declarations():
        path = folder / "declarations" / f"{declaration['connector_key']}.json"
        path.write_text(json.dumps(declaration, indent=1) + "\n", encoding="utf-8")
    connections = json.dumps(life.connections(), indent=1, ensure_ascii=False)
    (folder / "connections.json").write_text(connections + "\n", encoding="utf-8")
    for blob in life.blobs():
        (folder / "blobs" / blob["blob_id"]).write_bytes(blob["content"])
    count = 0
    with (folder / "records.jsonl").open("w", encoding="utf-8", newline="\n") as lines:
        for record in life.records():
            lines.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m demo DIR\n")
        return 2
    sys.stdout.write(f"{write(Path(arguments[0]))} records\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
