"""Bytes to rows."""
