"""Plants faults in a copy of the tree, one at a time, and tells which the tests notice: ./dev mutants."""
