"""What the page says and how it looks."""
