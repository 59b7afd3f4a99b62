"""Names with rows, sorted anew each time: slow, and plainly right."""


class SlowOrder:
    def __init__(self):
        self.rows = {}

    def put(self, name, row):
        if row is None:
            self.rows.pop(name, None)
        else:
            self.rows[name] = row

    def following(self, first, most, behind=False):
        found = sorted(self.rows.items())
        return [one for one in found if one[0] > first or (one[0] == first and not behind)][:most]
