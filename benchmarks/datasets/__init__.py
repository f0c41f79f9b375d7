"""Files in memory, persisted behind the job's back: beside other ways, over links, under faults, by simulation."""
