"""Drawings of a label graph: what is shown, its layout, and the SVG."""
