"""What the log teaches: a ranker that learns while it serves, and rankers trained on demand."""
