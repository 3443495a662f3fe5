"""Aggregates: how the replies of a round become one tree."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedskew import tree
from fedskew.errors import ConfigError
from fedskew.method_type import Method
from fedskew.part import Aggregate, Section
from fedskew.tree import Tree
from fedskew.values import Cohort, Model, Reply
