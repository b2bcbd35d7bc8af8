"""Units of a transformer as one device of (cp, tp) computes them; needs PyTorch.

A single device is enough: see ``edges``. The kernels are those of tensor parallelism
with sequence parallelism (Megatron-LM):

- norms and residuals have the device's ``seq_len / (cp * tp)`` tokens, matrices and
  attention ``seq_len / cp``;
- heads, the MLP's inner width and the vocabulary are divided by ``tp``;
- queries are the first and the last of ``2 * cp`` chunks of the sequence, the
  balanced pair of rank 0, and attend to the keys and values of all tokens before them.

Gradients of weights are added to those of the previous micro-batch, as in training.

A new kind of unit needs a class in its own file, which is constructed from ``Edges``
and has the method ``inputs``, and a line in ``timed.KINDS``.
"""
