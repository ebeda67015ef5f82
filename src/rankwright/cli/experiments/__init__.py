"""Running the papers' experiments: in a process of their own, with a record of what they used."""
