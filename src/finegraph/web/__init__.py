"""The web server and its pages: thin doors to the workflows."""
