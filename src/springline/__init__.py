"""Data workflows and streams at memory speed, made durable behind the job's back."""
