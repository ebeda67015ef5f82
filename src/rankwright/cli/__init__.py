"""The command line: a verb a file; each parses, calls the library, prints."""
