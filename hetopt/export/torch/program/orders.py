"""The passes of every stage; a bundle has the file of ``hetopt.schedule`` here."""

from hetopt.schedule.orders import Orders

__all__ = ["Orders"]
