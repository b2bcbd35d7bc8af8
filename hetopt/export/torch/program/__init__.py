"""The training program of a bundle: a plan, carried out by PyTorch alone.

``train.py`` starts it in every rank under torchrun. It does what hetopt priced, so its
times, bytes and losses can be compared with the plan. The parts, in the order in which
a plan passes through them:

units -> stages (``units``, ``operations``, ``attention``)
    The model is a sequence of units: embedding, layers, head with loss; or, instead of
    layers, their attention and the two matrices of their MLP, if the plan cuts layers.
    ``units.build_unit`` makes one as an ``nn.Module`` by its index; ``--units
    FILE:FUNCTION`` uses your function instead. A stage has one run of consecutive
    units, or several, some perhaps empty: its chunks (``stage.Stage``).
    ``operations`` has their arithmetic as autograd functions that keep from forward to
    backward what hetopt's table counts and no more: inputs of norms and matrices, the
    two factors of SwiGLU, q, k, v, the attention's result and its log-sum-exp, the
    softmax of the loss. Tensor parallelism splits heads, the MLP's inner width and the
    vocabulary; between these, sequence parallelism splits the tokens (``region``).
experts (``experts``, ``dispatch``)
    A routed layer chooses experts for each of its tokens and sends a copy to every one:
    an all-to-all over ep, then to the ranks of etp that share an expert; and back. No
    copy is dropped. Routed experts divide the ranks of a stage by ep and etp, those of
    etp next to one another, so their gradients are summed over other ranks than those
    of dense weights.
plan -> process groups (``job``, ``groups``)
    ``job.json`` has every stage's units, (dp, cp, tp), recomputation, ZeRO stage and
    warm-up count, pipeline by pipeline. Ranks are numbered by stage; within a stage tp
    varies fastest, then cp, then dp. ``groups.Place`` has a rank's coordinates and its
    process groups.
device and vendors (``devices``, ``crossing``)
    ``job.json`` names each cluster's kind of device and collective library, and which
    clusters reach each other directly. Messages to others go through the hosts: a copy
    to the host, gloo, a copy to the device.
boundary exchange (``routes``, ``boundaries``)
    A micro-batch's tensor between two stages is a set of tokens, each held by one rank
    on either side. A way of resharding is a sequence of holdings: who has which tokens
    after each step. ``routes`` derives the messages of a step from two holdings, so
    stages may have any (dp, cp, tp). Between the matrices of an MLP there are two
    tensors, of one of which tensor parallelism splits the columns. ``boundaries`` runs
    the messages in a thread for each direction, concurrently with the computation.
schedule executor (``passes``, ``executor``)
    F_1 .. F_W, then B_1, F_(W+1), B_2, ... with the plan's own warm-up count W. Most
    schedules of hetopt are given by one W per stage; all forwards first is W = q. With
    several chunks a stage, W counts passes: one micro-batch on one chunk each. Under
    zero bubble a backward pass is split in two; under zb-v, v-half and v-min the
    pipeline is folded.
gradients of weights (``later``)
    Under zero bubble, a multiplication's backward pass stores its factors, and a W pass
    multiplies them.
optimizer (``buckets``, ``optimizer``, ``tied``, ``scaling``)
    Weights in 16 bits, gradients accumulated in 32, a master copy and the optimizer's
    states in 32, sharded over dp * cp under ZeRO-1. In fp16 the loss is scaled. A
    unit's gradients are reduced as soon as its last backward pass, or W pass, is over
    if the plan overlaps them.
pipelines side by side (``pieces``, ``side_by_side``)
    A plan may have several pipelines, each with ranks, stages and a part of the batch
    of its own. Each sums its own gradients; then they are summed over all pipelines, in
    slices where tensor-parallel degrees differ.
training (``training``, ``checkpoints``, ``failure``)
    The loop: data, an iteration, a step, the loss. A restarted run resumes from its
    newest checkpoint. A rank that fails prints why before it ends the others.
measuring (``measuring``, ``kept``)
    With ``--times`` every rank writes the times of its passes and transfers, for
    ``hetopt run``.

Context parallelism gathers keys and values of the whole sequence during a pass, forward
and backward, and keeps only a rank's own; the table prices a ring of the same bytes.
"""
