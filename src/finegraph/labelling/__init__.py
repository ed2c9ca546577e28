"""The store of label decisions: who said what of which class, and when."""
