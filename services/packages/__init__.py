"""What servers need from package registries: jars, Java, Chromium."""
