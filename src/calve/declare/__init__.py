"""Three front ends, one Project."""
