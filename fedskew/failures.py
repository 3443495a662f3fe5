"""Runs that an error ended: noted in the run itself, so that they can be taken up again later."""

from collections.abc import Mapping
from pathlib import Path

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
    events = [event for event in RunReader(place).events() if event["event"] in (*ENDED, *GOES_ON)]
    if events and events[-1]["event"] in ENDED:
        return str(events[-1].get("why", ""))
    return None
