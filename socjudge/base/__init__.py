"""Provide what all other packages may use: texts, redaction, whole files, storage, the pass rule and the verdict."""
