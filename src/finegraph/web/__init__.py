"""The web servers and their pages: thin layers over the workflows."""
