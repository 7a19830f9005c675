"""Calve inside somebody's own program: catalogs, tables, and both ends of a pipeline. Public from `calve`."""
