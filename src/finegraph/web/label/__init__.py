"""The labelling page: `create_label_app` makes the web app of a session, `serve_label` runs it."""

from finegraph.web.label.label_app import create_label_app
from finegraph.web.label.label_server import serve_label

__all__ = ["create_label_app", "serve_label"]
