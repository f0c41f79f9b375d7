"""Registers the steps of the word count."""

from springline.spark_jobs.streaming.runtime.stage import register_step
from springline.spark_jobs.streaming.wordcount.count import Count
from springline.spark_jobs.streaming.wordcount.split import Split, again

register_step("wordcount.split", Split)
register_step("wordcount.again", again)
register_step("wordcount.count", Count)
