"""Weak learners: thresholds and values of single features, trees, custom estimators."""
