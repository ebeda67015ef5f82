"""Rankers that relax one violated margin at a time, in the span of a kernel."""
