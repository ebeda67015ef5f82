"""Rankers that compare the features with what they were shown, and keep the ones that agree."""
