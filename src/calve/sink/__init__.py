"""A batch becomes a commit."""
