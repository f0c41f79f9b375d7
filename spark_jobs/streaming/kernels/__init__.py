"""Compiled kernels that several kinds of jobs share: hash tables, sums, bit operations."""
