"""Ranking, feedback and judging over HTTP."""
