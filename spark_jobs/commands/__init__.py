"""The commands about operations and about landing files."""
