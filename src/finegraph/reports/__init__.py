"""What a run looked like: figures, tables and one self-contained page, from result files only."""
