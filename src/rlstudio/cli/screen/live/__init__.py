"""What is drawn anew while a run goes on."""
