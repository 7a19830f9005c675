"""The only place that touches Iceberg's Java API."""
