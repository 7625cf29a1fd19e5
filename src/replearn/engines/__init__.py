"""Rows past one machine: batches in, exact sums out, on Dask and Spark.

The model is that of the same rows in memory, to the bit, whatever the partitions, and whatever dies
on the way: sums are whole numbers, so neither order nor a second attempt can change them. What the
patients say about the model is asked of all rows up to a million, which travel once, encoded; of
more rows a million are chosen by their content.
"""
