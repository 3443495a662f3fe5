"""Commands that use what was learnt: predict, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedskew.cli.main import app
from fedskew.cli.screen import console, errors

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, e.g. runs/first/0.")]
Client = Annotated[
    str | None,
    typer.Option(
        "--client", help="Name or number of the client whose personal model it is, not the global one."
    ),
]


@app.command()
def predict(
    run: Run,
    input: Annotated[Path, typer.Option("--input", "-i", help="Examples: .npy, .npz (array x) or .csv.")],
    client: Client = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A .csv; default: the screen.")
    ] = None,
) -> None:
    """Predict classes with a trained model."""
    from fedskew import use
    from fedskew.files import write_text
    from fedskew.predict import inputs, scores, sheet

    taken = use.take(run, client)
    found = sheet(taken, scores(taken, inputs(input, taken)))
    if output is None:
        print(found, end="")
        return
    write_text(output, found)
    console.print(f"{len(found.splitlines()) - 1} predictions of {taken.who}: {output}", markup=False)


@app.command()
def export(
    run: Run,
    to: Annotated[str, typer.Option("--to", help="safetensors, torchscript, onnx or model-card.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    client: Client = None,
) -> None:
    """Write a trained model as a file that needs nothing of fedskew."""
    from fedskew import export, use

    taken = use.take(run, client)
    export.export(taken, to, output)
    console.print(f"wrote {taken.who} to {output}", markup=False)
    if taken.scale is None and to in ("torchscript", "onnx"):
        errors.print(f"It takes inputs as fedskew reads {taken.config.data.name}: already scaled.")
