"""`springline init`: a small project that runs, made from the files in `template/`."""
