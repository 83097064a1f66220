"""The `pdpp` command as it is installed: the REST client, and MCP over the same access."""

import sys

from cli.fast_imports import imported_fast


def main() -> None:
    """Run the command line of this process."""
    with imported_fast():
        from cli import app
        from cli.mcp import mcp

        commands = app.built(mcp)
    sys.exit(app.run(commands, sys.argv[1:]))


if __name__ == "__main__":
    main()
