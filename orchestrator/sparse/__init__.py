"""The keyword leg's arithmetic: what documents say, and the scores of their words and pairs of words."""
