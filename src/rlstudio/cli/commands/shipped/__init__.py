"""Commands for what comes with RLStudio."""
