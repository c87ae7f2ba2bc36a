"""Before a run begins: is it going to go well, how long will it take, and what should be changed?"""
