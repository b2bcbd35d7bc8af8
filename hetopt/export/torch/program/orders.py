"""The passes of every stage; a bundle has the file of ``hetopt.schedule`` here."""

from hetopt.schedule.orders import BLOCKS, FOLDED_CHUNKS, Orders

__all__ = ["BLOCKS", "FOLDED_CHUNKS", "Orders"]
