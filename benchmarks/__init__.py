"""Speed and learning, measured side by side with other libraries. Not part of the package and not of `make test`."""
