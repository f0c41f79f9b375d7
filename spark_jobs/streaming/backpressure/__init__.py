"""Back-pressure: queues and service rates of a job's stages, and how much each stage may admit; free of Spark."""
