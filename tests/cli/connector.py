"""A connector of the Collection Profile. It emits the messages of a file, line by line, from its cursor on.

`ASK` lines become interactions whose answer is a record. `DIE` ends the process, `EXIT` gives it another exit code, `WAIT` lasts.
"""

import json
import os
import sys
import time
from pathlib import Path


def emit(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


start = json.loads(sys.stdin.readline())
cursor = (start["state"] or {}).get("messages", {}).get("line", 0)
lines = Path(sys.argv[1]).read_text().splitlines()
records = 0
for line in lines[cursor:]:
    match line.split(" ", 1):
        case ["DIE"]:
            sys.exit(3)
        case ["EXIT"]:
            continue
        case ["WAIT"]:
            time.sleep(60)
        case ["ENVIRONMENT"]:
            line = json.dumps({"type": "PROGRESS", "message": " ".join(sorted(os.environ))})
        case ["ASK", question]:
            emit(question)
            response = json.loads(sys.stdin.readline())
            data = {"id": "answer", "subject": json.dumps(response, sort_keys=True)}
            line = json.dumps(
                {"type": "RECORD", "stream": "messages", "key": "answer", "data": data}
            )
    records += '"RECORD"' in line
    emit(line)
cursor = {"line": len(lines), "mode": start["collection_mode"]}
emit(json.dumps({"type": "STATE", "stream": "messages", "cursor": cursor}))
emit(json.dumps({"type": "DONE", "status": "succeeded", "records_emitted": records}))
sys.exit(3 * ("EXIT" in lines))
