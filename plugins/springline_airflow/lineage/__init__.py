"""View models of datasets for the API: the lineage graph, the queue, the data at risk; pure functions on values."""
