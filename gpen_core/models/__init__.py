"""Which networks exist, where their weights are, and what they compute."""
