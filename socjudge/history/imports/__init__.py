"""Read files of other tools into runs and frames of socjudge."""
