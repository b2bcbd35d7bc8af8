"""Pieces of a model's units: one file per kind of piece.

A unit is a sequence of one or more pieces; its operations, messages and kept bytes are
sums over its pieces. A decoder-only layer is attention, mlp-up and mlp-down; a layer
with a context has cross-attention after its attention; the first layer of a block may
have to merge tokens, or to look up tokens of its own. Units at the ends are one piece
each: an embedding or a projection of image patches, and a head per token or a
classifier per sequence.

A new kind of piece needs a class in its own file, derived from ``piece.Piece``, and a
line in ``kinds``, which defines the units that have it. If profiles time it separately,
its name is in ``shard_shape.UNITS``, and its operations in ``hetopt.profile.units``.
"""
