"""Back-pressure: how full and how quick the stages of a job are, and how much each may admit; free of Spark."""
