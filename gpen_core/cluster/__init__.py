"""A batch over many machines, by Ray Data."""
