"""Stream jobs: units of a topic, each with a state that is a pure function of its rounds."""
