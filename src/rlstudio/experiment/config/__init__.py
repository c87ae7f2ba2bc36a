"""The experiment file: its sections, presets, schema, and the modules it names."""
