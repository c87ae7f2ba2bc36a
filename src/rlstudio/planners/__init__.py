"""Search over action sequences against a score."""
