"""How a network runs on this machine."""
