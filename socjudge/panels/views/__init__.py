"""What the panels show, as escaped HTML."""
