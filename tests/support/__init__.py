"""What tests share: servers on loopback, logs, labs, and ways to start socjudge as a user does."""
