"""Provide what all other packages may use: texts, redaction, safe file writing, the pass rule and the verdict."""
