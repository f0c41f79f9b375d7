"""Back-pressure: every mode in a simulation, on Kafka and Spark, and while a consumer stands still."""
