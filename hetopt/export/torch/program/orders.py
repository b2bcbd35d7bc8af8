"""The passes of every stage; a bundle has the file of ``hetopt.schedule`` here."""

from hetopt.schedule.orders import FOLDED_CHUNKS, FOLDS, Orders

__all__ = ["FOLDED_CHUNKS", "FOLDS", "Orders"]
