"""What every dataset is: options, the files it needs, and how they become a pool of examples."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedskew.data import prepared
from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder


@dataclass(frozen=True)
class Source(ABC):
    """The options of one dataset; a subclass is a frozen dataclass."""

    name: ClassVar[str]

    @abstractmethod
    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The files `read` needs, found or fetched and checked; none for embedded data."""

    @abstractmethod
    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The dataset made from `files`."""

    def load(self, folder: Folder) -> Dataset:
        """The dataset, taken from the prepared cache when its files have not changed."""
        files = self.files(folder)
        if not files:
            return self.read(files, folder)
        return prepared.load(repr(self), files, folder, lambda: self.read(files, folder))
