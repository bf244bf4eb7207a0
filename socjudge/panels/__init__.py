"""Panels: controls in a notebook cell, one module each."""
