"""What a run measures: records, writing, reading, sinks."""
