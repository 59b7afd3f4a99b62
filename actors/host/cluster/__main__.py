"""The process of a supervisor: `python -m actors.host.cluster DIR`. What it imports stays, so nothing of it is looked at
for garbage meanwhile: that took a fifth of the time to the first node."""

import gc
import sys

gc.disable()

if __name__ == "__main__":
    from actors.host.cluster.supervisor import main

    sys.exit(main(sys.argv[1:]))
