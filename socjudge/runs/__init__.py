"""A whole evaluation: what is to be done, the engine that does it, the journal and the log that keep it."""
