"""Rankers whose score is a sum of kernels around the training items."""
