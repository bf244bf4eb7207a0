"""Make one judgement: the judge, and the parsers of its replies."""
