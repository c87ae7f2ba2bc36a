"""What a server writes down: who changed what, and answers that may be asked for again."""
