"""Streams into Apache Iceberg tables, exactly once, on Spark."""
