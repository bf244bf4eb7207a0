"""For `pytest --nbval-lax notebooks` too, which reads nothing below tests/: the rules of tests/support/notebook_rules.py."""

pytest_plugins = ["support.notebook_rules"]
