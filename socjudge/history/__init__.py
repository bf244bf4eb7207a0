"""Logs as frames: reading, the cache, export, what is wrong with them, people's labels."""
