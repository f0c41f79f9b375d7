"""One module per server: its processes, environment, ports and readiness check."""
