"""What commands take: options, completion, experiments, bundles."""
