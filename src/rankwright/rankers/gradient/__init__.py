"""One loss over all pairs, minimised."""
