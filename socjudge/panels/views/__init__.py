"""Return what the panels show, as escaped HTML."""
