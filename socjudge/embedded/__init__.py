"""The default that needs no key: its assistant (`answer.py`) and its judge (`judge.py`); `models/offline.py` alone opens it."""
