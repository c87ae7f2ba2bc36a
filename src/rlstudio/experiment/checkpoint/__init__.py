"""What a run resumes from: files, hashes, segments, versions."""
