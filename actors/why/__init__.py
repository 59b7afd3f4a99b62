"""Why a cluster is not as it should be: facts go in, explanations come out.

`explain(facts, past)` in `explanations.py` is the one function behind `rayft health`, `rayft status` and `replay.why`. It
knows neither logs nor clients: those who ask make the facts (`facts.py`) out of a moment of the metadata log or of what a
running cluster has answered, and a past (`past.py`) where there is a log to look into.
"""
