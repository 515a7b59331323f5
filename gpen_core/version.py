"""The version, alone in a module so that `--version` and packaging read it without importing anything else."""

__version__ = "0.1.0"
