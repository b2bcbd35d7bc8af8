"""The units of a transformer, as one device of (cp, tp) computes them; needs PyTorch.

No other device takes part: see ``edges``. The kernels are those of tensor parallelism
with sequence parallelism (Megatron-LM):

- norms and residuals see the device's ``seq_len / (cp * tp)`` tokens, matrices and
  attention ``seq_len / cp``;
- heads, the MLP's inner width and the vocabulary are divided by ``tp``;
- queries are the first and the last of ``2 * cp`` chunks of the sequence, the
  balanced pair of rank 0, and meet the keys and values of all tokens before them.

Gradients of weights are added to those of the micro-batch before, as in training.

A new kind of unit is a class of its own file, made of ``Edges``, with the method
``inputs``, and a line in ``timed.KINDS``.
"""
