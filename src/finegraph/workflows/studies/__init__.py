"""Comparing heads: one TOML file says what, one call runs it, and a folder holds rows, summary, tables and plots."""
