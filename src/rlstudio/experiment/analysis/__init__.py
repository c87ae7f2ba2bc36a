"""Looking at runs afterwards: comparing, curves, films, datasets, planning with what was trained."""
