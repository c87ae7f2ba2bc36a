"""What commands show: tables, progress, summaries."""
