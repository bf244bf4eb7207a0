"""What the panels know, as plain objects that tests drive without a browser."""
