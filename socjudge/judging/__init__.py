"""Make one answer and one judgement: the assistant, the judge, and the parsers that read a judge's reply."""
