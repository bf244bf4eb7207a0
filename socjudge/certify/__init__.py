"""May a judge be believed? Answers changed on purpose, and what the judge makes of it."""
