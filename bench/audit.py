"""`make audit`: run pip-audit, and report how many packages it could check.

pip-audit succeeds when its service is unreachable or is a mirror without advisories. This reports how
many packages it skipped.
"""

import json
import subprocess
import sys
from typing import Any

SECONDS = 300
PIP_AUDIT = [
    "-m",
    "pip_audit",
    "--local",
    "--progress-spinner",
    "off",
    "--timeout",
    "10",
    "-f",
    "json",
]
UNREACHABLE = "pip-audit: the service is unreachable. NOTHING WAS CHECKED."


def main() -> int:
    """Return 1 if a package has a known vulnerability, otherwise 0."""
    try:
        process = subprocess.run(
            [sys.executable, *PIP_AUDIT],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        packages = json.loads(process.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        packages = []
    message, code = verdict(packages)
    sys.stdout.write(f"{message}\n")
    return code


def verdict(packages: list[dict[str, Any]]) -> tuple[str, int]:
    """Return the message and the exit code for the packages in the output of pip-audit."""
    checked = [package for package in packages if "skip_reason" not in package]
    if not checked:
        return UNREACHABLE, 0
    findings = [
        f"{package['name']} {package['version']}: {issue['id']}"
        + (f", fixed in {', '.join(issue['fix_versions'])}" if issue["fix_versions"] else "")
        for package in checked
        for issue in package["vulns"]
    ]
    count = f"{len(checked)} of {len(packages)} packages"
    if findings:
        return "\n".join([f"pip-audit checked {count}:", *findings]), 1
    return f"pip-audit found no vulnerabilities in {count}; it does not know the others.", 0


if __name__ == "__main__":
    sys.exit(main())
