"""A mutation for every `done` row of docs/kips.md: it takes the row's behaviour out, and a test that the row names fails.

    python -m tests.kips                     every mutation (`make kips`)
    python -m tests.kips R631-001 R291       these ids, or all ids that begin so
    python -m tests.kips --jobs 2 --sample 40 --date 2026-02-14       the 40 of that day
    python -m tests.kips --second            the mechanical ones of the day (`second.py`); part of `make kips`
    python -m tests.kips --baseline R631     also run the named tests without any mutation first (always so without ids)

A mutation is data. Each `*.toml` in this folder holds those of one section of docs/kips.md; a row's id is the table's name:

    [R631-024]
    about = "A lease that is not longer than the interval is taken, so every heartbeat comes too late."
    test = "tests/unit/settings/test_node_config.py::test_a_lease_that_cannot_be_kept"
    file = "actors/settings/node_config.py"
    before = "if lease_ms <= interval_ms:"
    after = "if False:"

`about` says in one plain sentence what a cluster with the mutation would do wrong. `test` is one node id; without its
brackets it stands in the row (a story `tests/transcripts/raft/resign.txt` is
`tests/transcripts/test_raft.py::test_story[resign]`). `before` occurs exactly once in `file`. Text of several lines goes
between three single quotes, where TOML changes nothing:

    before = \'\'\'
        if not ready:
            return None\'\'\'

Several places at once, or the same places as another row:

    [R631-048]                                          [R631-098]
    about = "..."                                       about = "..."
    test = "..."                                        test = "..."
    edits = [                                           same_as = "R631-048"
      { file = "actors/a.py", before = "x", after = "y" },
      { file = "actors/b.py", before = "x", after = "y" },
    ]

A row that asks for several things may have several: `[R631-030]`, `[R631-030b]`, `[R631-030c]`.

Two rows that share the edit and the test prove one thing: the later one says so with `one_with = "R631-048"`, which is for
rows that ask for the same in other words, not for those that lack a mutation. An edit in a file that the row does not name
says why with `beside`; mostly the row is about something that must not be there, and the edit adds it.

`slow = true` keeps a row whose test takes more than 20 s out of the sample. A mutation of `fastpath/*.pyx` compiles that
module, which takes 10 to 40 s (so it is slow); prefer a Python line that calls it (a .pxd cannot be mutated, since others
compile it in).

What makes a good one:

- It takes out what the row asks for and nothing else; the program runs on and does the wrong thing. No `raise`, no syntax
  error, no missing name: a test that fails by NameError, ImportError or in its fixtures is `broken`, not `killed`.
- It is a mistake that somebody could make: a condition that is gone, a bound that is off by one, a field not written.
- It mutates what the row's code column names, where that is possible, and never a file below tests/.
- The test fails with it in every run. One that draws its values at random (hypothesis) can draw none that meets it: take
  another test of the row, or give that one an `@example`. A fixed seed is no help, as other versions draw otherwise.
- The test that kills it fails because of the behaviour. If none does, the row was not tested: write the test, and put it
  into the row.

How one is run: the tree is copied into a temporary folder, the text replaced there, and the one test started in that folder
(`scratch.py`); whatever it starts imports the copy too. The words of the outcome: `killed` (the test failed; what failed is
printed), `survived` (it passed), `skipped` (it cannot run here, for example without Java), `broken` (anything else: also a
test that hangs, and a mutation with which no node starts).
"""
