"""From files of runbooks to the passages that fit a question."""
