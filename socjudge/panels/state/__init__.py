"""Hold the state of the panels as plain objects, which tests can use without a browser."""
