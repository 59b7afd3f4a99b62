"""Chains of extents in a list: slow, and plainly right."""


class SlowChains:
    def __init__(self):
        self.chains = []

    def put(self, index, chain):
        self.chains[index] = chain

    def append(self, chain):
        self.chains.append(chain)
        return len(self.chains) - 1
