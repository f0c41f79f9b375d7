"""What several suites share: operations over lines of text, clocks that stand still, crashes on demand."""
