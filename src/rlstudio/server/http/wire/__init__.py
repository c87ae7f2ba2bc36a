"""One connection: deadlines, places, the server that has them all."""
