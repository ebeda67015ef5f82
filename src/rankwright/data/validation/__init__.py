"""Look for mistakes in data, and say what is in it."""
