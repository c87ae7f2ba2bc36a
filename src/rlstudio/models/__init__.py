"""Networks that only predict: observations in, policies, values or dynamics out."""
