"""Plants faults in a copy of the tree, one at a time, and reports which of them the tests notice: ./dev mutants."""
