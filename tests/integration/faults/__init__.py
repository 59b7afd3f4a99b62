"""Real processes under faults, with real clients, and a checker of what those clients saw.

`python -m tests.integration.faults --minutes 10 --seed N` runs the random faults of one seed on three controllers and
three brokers.
"""
