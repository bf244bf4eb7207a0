"""Make one answer and one judgement. The assistant, the judge, and the parsers of the judge's replies are here."""
