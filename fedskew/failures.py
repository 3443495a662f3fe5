"""Runs that an error ended: noted in the run itself, so that they can be taken up again later."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedskew.errors import DivergedError, FedskewError
from fedskew.store.reader import RunReader

ENDED = ("failed", "diverged")
GOES_ON = ("started", "resumed", "finished")


def note(place: Path, event: str, detail: Mapping[str, object]) -> None:
    """Adds an event to a run that nobody writes at present; one that cannot be written stays as it is."""
    from fedskew.store.run import RunStore

    try:
        with RunStore.open(place) as store:
            store.log_event(event, detail)
    except FedskewError:
        return  # whoever holds the run, or a full disk, has already been told of


def note_failure(place: Path, error: FedskewError) -> None:
    """Notes why a run ended before its time; that it diverged it has noted itself."""
    if not isinstance(error, DivergedError):
        note(place, "failed", {"why": str(error)})


def why(place: Path) -> str | None:
    """Why the run failed; None if it did not, or was taken up again since."""
    last = _last(RunReader(place))
    return str(last.get("why", "")) if last.get("event") in ENDED else None


def has_diverged(run: RunReader) -> bool:
    """Whether the run ended by diverging, which it would do again."""
    return _last(run).get("event") == "diverged"


def _last(run: RunReader) -> Mapping[str, Any]:
    """The last event that began or ended training."""
    events = [event for event in run.events() if event["event"] in (*ENDED, *GOES_ON)]
    return events[-1] if events else {}
