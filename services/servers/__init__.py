"""One file a server: what is run, in which environment, on which ports, and how to ask whether it is ready."""
