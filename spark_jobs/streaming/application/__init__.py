"""A job as an application on Spark: started, watched, supervised, measured, ended."""
