"""Load and fill prompt templates: the built-in ones and your own saved ones."""
