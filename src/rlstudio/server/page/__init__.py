"""The dashboard: files that `make web` builds, and the routes that serve them."""
