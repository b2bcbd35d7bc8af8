"""Writes plans as the files that training runtimes launch from, and reads them back.

Each launcher has a folder of its name: its module ``launcher`` holds the record (see
``hetopt.export.launcher.Launcher``), other modules its losses, its files and its
reader. ``registry`` lists the launchers. ``shared`` holds what several launchers use,
``planning`` the search for the best plan that a launcher can run, ``back`` what turns a
runtime's files into a plan.
"""
