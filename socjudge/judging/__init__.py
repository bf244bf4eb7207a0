"""One answer, one judgement: the assistant, the judge, and how a reply is read."""
