"""One module for each target of an export."""
