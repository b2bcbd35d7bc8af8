"""Small shards for the tests of this folder."""

from hetopt.cost.shard_shape import ShardShape


def small_shape(unit: str = "layer", **changes: int | bool | str) -> ShardShape:
    """Return a shard that takes milliseconds."""
    values: dict[str, int | bool | str] = {
        "unit": unit,
        "gated": True,
        "dtype": "fp32",
        "hidden": 64,
        "heads": 8,
        "kv_heads": 4,
        "head_dim": 8,
        "ffn": 192,
        "vocab": 99,
        "cp": 1,
        "tp": 1,
        "microbatch": 2,
        "seq_len": 64,
    }
    return ShardShape(**{**values, **changes})  # type: ignore[arg-type]
