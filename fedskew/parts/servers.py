"""Servers: how the server moves from its model to the combined one."""

from dataclasses import dataclass

from fedskew.part import Server
from fedskew.tree import Tree


@dataclass(frozen=True)
class Replace(Server):
    """The combined model becomes the server's."""

    def update(self, old: Tree, combined: Tree, state: Tree) -> tuple[Tree, Tree]:
        return combined, state
