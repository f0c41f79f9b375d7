"""The catalog: what is known of every generation, who claims it, who reads it, kept in a database."""
