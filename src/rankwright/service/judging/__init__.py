"""People judge items in a browser: the queue, its state, agreement, what to judge next."""
