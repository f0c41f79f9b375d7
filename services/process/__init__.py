"""Processes of servers: groups, ports, and the record of what runs."""
