"""`python -m socjudge` is the command `socjudge`."""

from .cli.app import main

if __name__ == "__main__":
    main()
