"""Compiled loops of boosting."""
