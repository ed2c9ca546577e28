"""The labelling page: `create_label_app` makes the web app of a session, `serve_label` runs it."""

from finegraph.web.label.app import create_label_app
from finegraph.web.label.serve import serve_label

__all__ = ["create_label_app", "serve_label"]
