"""For `pytest --nbval-lax notebooks` too, which reads nothing below tests/: the rules of tests/notebook_rules.py."""

pytest_plugins = ["notebook_rules"]
