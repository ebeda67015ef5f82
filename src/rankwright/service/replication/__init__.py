"""Two services with one log: a leader that is written to, and a replica that copies it."""
