"""Read result files of other tools, and make runs and frames of socjudge from them."""
