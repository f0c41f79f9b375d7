"""What Springline is compared with: chosen by name, as installed packages are; the product imports nothing of it."""
