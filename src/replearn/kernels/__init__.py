"""Compiled inner loops: contiguous arrays and scalars in, arrays out.

No randomness, no flags, no BLAS and no fastmath: the same rows give the same bits on every
machine, for every number of threads, dense or sparse. Callers validate; kernels trust.
"""
