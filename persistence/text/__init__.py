"""How values are printed for people: units, lists, secrets left out, nothing that a terminal would obey."""
