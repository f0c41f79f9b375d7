"""What is missing for Springline to run here, and the remedy of each: `springline doctor` and `config check`."""
