"""Bytes on the wire: four for every number sent, per participant and direction."""

from math import prod

from fedskew import tree
from fedskew.algorithm import Algorithm
from fedskew.engines.feed import Feed
from fedskew.tree import State
from fedskew.values import Cohort, Reply


def traffic(
    algorithm: Algorithm, server: State, replies: Reply, cohort: Cohort, feed: Feed
) -> tuple[int, int]:
    """(bytes down, bytes up) of one round, over its participants; examples handed out come with the first."""
    message = algorithm.message(server, cohort.round)
    common = sum(tree.nbytes(part) for name, part in message.items() if name not in ("shared", "clock"))
    share = algorithm.method.share
    down = sum(common + share.bytes_down(message["shared"], feed.idle(client)) for client in cohort.ids)
    if cohort.round == 0:
        down += 4 * feed.federation.handed_out * prod(feed.x.shape[1:]) * len(feed.federation.trainers)
    up = share.bytes_up(replies) + 4 * algorithm.method.aggregate.scalars * len(cohort.ids)
    up += sum(tree.nbytes(part) for name, part in replies.extra.items() if name != share.name)
    return down, up
