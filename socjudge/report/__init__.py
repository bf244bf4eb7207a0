"""Write what is known about runs, judges and certificates as self-contained HTML pages."""
