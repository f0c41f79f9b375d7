"""Data workflows and streams at memory speed, made durable behind the job's back."""

__version__ = "0.1.0"
