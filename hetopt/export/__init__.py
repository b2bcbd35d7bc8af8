"""Plans as the files that training runtimes launch from, and back.

Each launcher has a folder of its name: ``launcher`` holds its record (see
``hetopt.export.launcher.Launcher``), beside it lie what it loses, its files and its
reader. ``registry`` lists the launchers. ``shared`` holds what several launchers use,
``planning`` the search for the best plan that a launcher can run, ``back`` the way from
a runtime's files to a plan.
"""
