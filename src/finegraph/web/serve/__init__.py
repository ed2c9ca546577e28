"""The server of `finegraph serve`: its app, its routes and its page."""
