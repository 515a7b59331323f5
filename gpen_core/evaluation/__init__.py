"""How good a model is: degrade known portraits, restore them, compare; or look at one's own photos without a truth."""
