"""Plans as the files that training runtimes launch from, and back.

One module per launcher, each with a ``LAUNCHER`` that follows
``hetopt.export.launcher.Launcher`` and is listed in ``hetopt.export.launchers``.
"""
