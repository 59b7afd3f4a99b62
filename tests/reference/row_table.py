"""Rows by key in a list that is gone through each time: slow, and plainly right."""


class SlowTable:
    def __init__(self):
        self.rows = []

    def get(self, key, otherwise=-1):
        return next((row for known, row in self.rows if known == key), otherwise)

    def put(self, key, row):
        self.rows = [one for one in self.rows if one[0] != key] + ([(key, row)] if row >= 0 else [])
