"""The soak: everything at once on the cluster profile, harmed again and again, with outputs as if it were not."""
