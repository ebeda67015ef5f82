"""Many online rankers that see different parts of one stream, and answer together."""
