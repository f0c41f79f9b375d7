"""Dependencies of servers and tests from package registries: jars, Java, Chromium."""
