"""Compiled kernels shared by several kinds of jobs: hash tables, sums, bit operations."""
