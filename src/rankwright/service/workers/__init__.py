"""Several processes on one port: workers score requests, one process writes and does the rest."""
