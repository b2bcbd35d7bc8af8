"""One module per command, with ``add_arguments`` and ``run``."""
