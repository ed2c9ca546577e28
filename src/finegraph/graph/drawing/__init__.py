"""A label graph as a picture: what is shown, where it stands, and the SVG of it."""
