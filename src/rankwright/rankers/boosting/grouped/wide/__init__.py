"""Queries with many levels."""
