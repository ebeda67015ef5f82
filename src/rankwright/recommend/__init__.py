"""Collaborative filtering: what other users say about items, as features of a ranking problem."""
