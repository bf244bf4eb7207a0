"""Make a whole evaluation. A plan says what to do, the engine does it, and journal and log store the results."""
