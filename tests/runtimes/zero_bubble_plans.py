"""Plans of zero bubble that the torch program is held against."""

from __future__ import annotations

from tests.runtimes.torch_plans import GPT, MIXTRAL, ONE, PAIR, QWEN2, Case

#: Plans whose gradients of weights run later.
ZERO_BUBBLE = {
    "zb-h1": Case(schedule="zb-h1", degrees=(ONE,) * 3, layers=(2, 1, 1), q=6),
    "zb-h1, tensors to replicas, recomputed": Case(
        schedule="zb-h1",
        degrees=(PAIR, (2, 1, 1)),
        each=2,
        model={**GPT, "granularity": "block"},
        recompute=("full", "selective"),
        training={"optimizer": "sgd"},
    ),
    "zb-h1, few micro-batches": Case(
        schedule="zb-h1",
        degrees=(ONE, (1, 2, 1), ONE),
        q=2,
        recompute=("none", "full", "none"),
        training={"overlap_gradients": False},
    ),
    "zb-h1, experts": Case(
        schedule="zb-h1",
        degrees=((2, 1, 1), PAIR),
        layers=(2, 1),
        experts=((2, 1), (1, 2)),
        each=2,
        model={"experts": QWEN2},
    ),
    "zb-h1, one stage": Case(
        schedule="zb-h1", degrees=(ONE,), layers=(2,), q=2, model={"tied": True}
    ),
    "zb-v": Case(schedule="zb-v", degrees=(ONE,) * 3, layers=(2, 1, 1), q=7),
    "v-half": Case(schedule="v-half", degrees=(ONE,) * 4, layers=(1,) * 4, q=9),
    "v-min, tied": Case(
        schedule="v-min", degrees=(ONE,) * 3, q=7, model={"tied": True}
    ),
    "zb-v, tensors to replicas, tied": Case(
        schedule="zb-v",
        degrees=(PAIR, (2, 1, 1)),
        layers=(1, 2),
        each=2,
        ways=("leader", "p2p"),
        model={"tied": True},
        recompute=("full", "selective"),
    ),
    "zb-v, split sequences": Case(
        schedule="zb-v",
        degrees=((1, 2, 1), PAIR),
        q=3,
        model={**GPT, "kv_heads": 4},
        training={"sequence_parallel": False, "zero": 0},
    ),
    "zb-v, experts on one stage": Case(
        schedule="zb-v",
        degrees=((2, 1, 1),),
        layers=(2,),
        experts=((2, 1),),
        q=3,
        model={"experts": MIXTRAL, "tied": True},
    ),
}
