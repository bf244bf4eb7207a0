"""Define the panels, which are groups of controls in a notebook cell. Each panel has its own module."""
