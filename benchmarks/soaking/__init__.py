"""The soak: everything together on the cluster profile, harmed again and again; what comes out must be as if it were not."""
