"""Train a transformer, cut into pipeline stages as job.json and schedule.csv say.

Needs PyTorch alone; run by torchrun in every rank. The model is small enough to read:
replace it, its data and the optimizer's settings by your own. What is planned is the
cut (``modules`` of job.json), the mesh, what each stage recomputes, and the order of
forward and backward passes (schedule.csv, one row per stage).

Ranks count stages, then data, context and tensor parallelism, the last the fastest.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.utils.checkpoint import checkpoint

HERE = Path(__file__).parent
