"""What Springline is compared with: chosen by name, registered as entry points, imported by nothing else of it."""
