"""What writes, persists, restores, evicts and retires datasets: it carries decisions out."""
