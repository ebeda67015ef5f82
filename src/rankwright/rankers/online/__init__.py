"""One item at a time: ordinal rankers that learn from a stream, row by row."""
