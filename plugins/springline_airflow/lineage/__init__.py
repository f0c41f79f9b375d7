"""What the API tells of datasets: the lineage as a picture, the queue, what is at risk; values in, values out."""
