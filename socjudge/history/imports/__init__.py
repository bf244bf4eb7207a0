"""Files of other tools as runs and frames of ours."""
