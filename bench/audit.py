"""``make audit``: what pip-audit knows against the installed packages, and of how many it knows at all.

Where its service cannot be reached, or is a mirror that knows no advisories, pip-audit ends as if all
were well. So what it could not judge is counted and said.
"""

import json
import subprocess
import sys
from typing import Any

SECONDS = 300
ASK = ["-m", "pip_audit", "--local", "--progress-spinner", "off", "--timeout", "10", "-f", "json"]
UNREACHED = "pip-audit: its service could not be reached, so NOTHING WAS CHECKED."


def main() -> int:
    """1 where something is known; 0 where nothing is, or nothing could be asked, which is said."""
    try:
        done = subprocess.run(
            [sys.executable, *ASK], capture_output=True, text=True, check=False, timeout=SECONDS
        )
        found = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        found = []
    said, code = verdict(found)
    sys.stdout.write(f"{said}\n")
    return code


def verdict(found: list[dict[str, Any]]) -> tuple[str, int]:
    """What to say of pip-audit's list, and how to end."""
    judged = [each for each in found if "skip_reason" not in each]
    if not judged:
        return UNREACHED, 0
    known = [
        f"{each['name']} {each['version']}: {weakness['id']}"
        + (f", mended in {', '.join(weakness['fix_versions'])}" if weakness["fix_versions"] else "")
        for each in judged
        for weakness in each["vulns"]
    ]
    of = f"{len(judged)} of {len(found)} packages"
    if known:
        return "\n".join([f"pip-audit judged {of}:", *known]), 1
    return f"pip-audit knows nothing against {of}; the others it does not know.", 0


if __name__ == "__main__":
    sys.exit(main())
