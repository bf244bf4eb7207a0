"""Read runbook files, index their passages and find the passages that fit a question."""
