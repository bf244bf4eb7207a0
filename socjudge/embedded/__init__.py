"""Provide the default assistant (`answer.py`) and judge (`judge.py`), which need no key.

Only `models/offline.py` imports them.
"""
