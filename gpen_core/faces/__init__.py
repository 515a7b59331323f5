"""Where the faces are, how they come to the template and back."""
