"""Make a whole evaluation: its assignment, the engine that carries it out, and the journal and log that store it."""
