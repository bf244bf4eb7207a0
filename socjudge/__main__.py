"""Make `python -m socjudge` run the command `socjudge`."""

from .cli.app import main

if __name__ == "__main__":
    main()
