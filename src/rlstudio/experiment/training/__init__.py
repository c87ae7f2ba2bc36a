"""The parts a run trains with, the loop, and the machine it computes on."""
