"""Compiled passes of the online rankers."""
