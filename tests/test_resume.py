"""A run that is stopped after any round and resumed ends with the bytes of one that never stopped."""

import shutil
from pathlib import Path

import pytest
from victims import result, small

from fedskew import runs
from fedskew.methods import presets


def test_every_preset_resumes_in_the_middle(tmp_path: Path) -> None:
    """Stopped after every round, for all presets: what a client or the server remembers is all in the checkpoint."""

    class StopError(Exception):
        pass

    def stop(place: Path, done: int, rounds: int) -> None:
        raise StopError

    for method in presets():
        whole = runs.begin(small(method, rounds=3), 0, tmp_path / "whole")
        pieces = tmp_path / "pieces" / method
        shutil.copytree(whole, pieces)
        runs.carry_on(whole)
        for _ in range(3):
            with pytest.raises(StopError):
                runs.carry_on(pieces, stop)
        runs.carry_on(pieces)
        assert result(pieces) == result(whole), method
