"""Pixels: reading and writing, colour, tiles, the canvas. No faces and no networks."""
