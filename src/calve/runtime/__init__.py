"""Spark sessions, jars and the loop of a pipeline."""
