"""Scores made from what a language model gives: token log-probabilities, alternatives, repeated runs.

``constructions`` makes the scores, ``agreement`` the outcomes, ``comparing`` says which score is best calibrated.
"""
