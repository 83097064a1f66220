"""``python -m pdpp_site``: the server's command line."""

from pdpp_site.command_line import main

if __name__ == "__main__":
    main()
