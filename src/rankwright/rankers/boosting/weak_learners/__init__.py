"""Weak learners: thresholds and values of single features, trees, estimators of the user's own."""
