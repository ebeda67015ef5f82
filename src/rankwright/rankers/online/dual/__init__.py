"""Online rankers kept as sums of kernels over the rows they got wrong."""
