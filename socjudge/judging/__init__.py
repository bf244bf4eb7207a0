"""Handle one answer and one judgement: the assistant, the judge, and how a judge's reply is read."""
