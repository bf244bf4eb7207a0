"""Make an answer: by socjudge's assistant, by your own, or from a file. What it cites is here too."""
