"""The panels' state as plain objects, which tests drive without a browser."""
