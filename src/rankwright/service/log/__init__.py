"""The log: what an entry holds, how it is read, and the one thread that writes it."""
