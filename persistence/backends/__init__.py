"""Backends that store bytes: one interface (`spec`), one file per kind of store."""
