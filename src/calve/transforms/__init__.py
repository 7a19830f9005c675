"""What happens to rows between source and sink."""
