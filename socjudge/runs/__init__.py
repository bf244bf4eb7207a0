"""Make a whole evaluation. An assignment says what to do, the engine does it, and journal and log store the results."""
