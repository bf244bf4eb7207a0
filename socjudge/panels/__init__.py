"""Define the panels: controls in a notebook cell. Each panel has a module of its own."""
