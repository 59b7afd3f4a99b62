"""`rayft node`: one node in the foreground, its log on standard output."""

import argparse
import sys

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft node`."""
    common.one_node(parser)
    common.log_format(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 3 if the node refuses to start, 78 if its id is held."""
    from actors.host.security.config_providers import resolved
    from actors.host.serve import REFUSED, hostname, serve
    from actors.host.work.journal import Journal
    from actors.settings.keys import ConfigError
    from actors.settings.node_config import node_config
    from actors.settings.properties import has_secrets

    try:
        written = common.properties(options)
        config = node_config(resolved(written), hostname())
    except (ConfigError, OSError) as error:
        code, sentence = REFUSED, str(error)
    else:
        secret_files = [str(options.config)] if has_secrets(written) else []
        code, sentence = serve(config, Journal(sys.stdout), secret_files=secret_files)
    if code == REFUSED:
        print(f"rayft: {sentence}", file=sys.stderr)
    return code
