"""Provide the default that needs no key: its assistant (`answer.py`) and its judge (`judge.py`).

Only `models/offline.py` opens it.
"""
