"""The papers' word count as a tracked topology: lines are split into words, and each word is counted."""
