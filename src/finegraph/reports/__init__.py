"""Reports: plots, tables and one self-contained page, from result files only."""
