"""What the units of a model are made of: one file per kind of piece.

A unit is one piece or several, one after the other; what it computes, sends and keeps
is the sum over its pieces. A decoder-only layer is attention, mlp-up and mlp-down; a
layer with a context has cross-attention behind its attention; the first layer of a
block may have to merge tokens or to look up tokens of its own. Units at the ends are
one piece each: an embedding or a projection of image patches, and a head per token or
a classifier per sequence.

A new kind of piece is a class in a file of its own, derived from ``piece.Piece``, and
a line in ``kinds``, which says what units have it. If profiles time it by itself, its
name is in ``shard_shape.UNITS`` too, and ``hetopt.profile.units`` has its operations.
"""
