"""How fast this machine runs federated rounds, against what it could do at best."""

from fedskew.bench.peaks import Peaks, peaks
from fedskew.bench.rounds import Timing, measure
from fedskew.bench.workloads import WORKLOADS, Workload

__all__ = ["WORKLOADS", "Peaks", "Timing", "Workload", "measure", "peaks"]
