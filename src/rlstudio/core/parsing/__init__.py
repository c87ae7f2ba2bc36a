"""From text to checked values: YAML with the place of every value, kinds, problems."""
