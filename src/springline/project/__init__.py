"""`springline init`: creates a small working project from the files in `template/`."""
