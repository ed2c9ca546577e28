"""The store itself: its tables, its one writer, what it holds and what it is asked for."""
