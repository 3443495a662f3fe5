"""Your own numbers: a .csv or .parquet table with a column of labels and perhaps one of clients."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedskew.data.arrays import from_arrays, texts
from fedskew.data.dataset import Dataset
from fedskew.data.folder import Folder
from fedskew.data.safe import gunzip, read_bytes
from fedskew.data.source import Source
from fedskew.errors import DataError, unknown
from fedskew.ranges import Natural

LARGEST_TEXT = 1 << 27  # bytes; more belongs into a .parquet or .npz
LARGEST_PARQUET = 1 << 31  # bytes when unpacked, and cells
SEPARATORS = (";", "\t", ",", "|")
TRUE, FALSE = ("1", "true", "test", "yes"), ("0", "false", "train", "no")


class Table(NamedTuple):
    """What a file holds."""

    columns: dict[str, NDArray[Any]]
    places: Sequence[int]  # of the rows in the file, as a person counts: the header is row 1


@dataclass(frozen=True)
class CSV(Source):
    """A .csv or .csv.gz with a header; every column but `label`, `client`, `test` and `drop` is an input.

    `test` is a column with 1 or 0 (or test or train); without it 20 % of every class is held out.
    """

    name: ClassVar[str] = "csv"
    path: str
    label: str
    client: str | None = None
    test: str | None = None
    drop: Sequence[str] = ()
    separator: str = ","
    normalise: bool = True
    seed: Natural = 0

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The table."""
        return (folder.locate(self.path),)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The rows of the table."""
        table = read_csv(files[0], self.separator)
        return pool(self, table, files[0])


@dataclass(frozen=True)
class Parquet(Source):
    """A .parquet table, with the options of a .csv; read by pyarrow (extra `table`)."""

    name: ClassVar[str] = "parquet"
    path: str
    label: str
    client: str | None = None
    test: str | None = None
    drop: Sequence[str] = ()
    normalise: bool = True
    seed: Natural = 0

    def files(self, folder: Folder) -> tuple[Path, ...]:
        """The table."""
        return (folder.locate(self.path),)

    def read(self, files: tuple[Path, ...], folder: Folder) -> Dataset:
        """The rows of the table."""
        return pool(self, read_parquet(files[0]), files[0])


def read_csv(path: Path, separator: str) -> Table:
    """The columns of a text table, as text."""
    data = gunzip(path, LARGEST_TEXT) if path.suffix == ".gz" else read_bytes(path, LARGEST_TEXT)
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), delimiter=separator, strict=True))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not written in UTF-8 ({error}). Save it as UTF-8.") from error
    except (csv.Error, TypeError) as error:
        raise DataError(f"{path}: is no table of text with separator {separator!r} ({error}).") from error
    places = [place for place, row in enumerate(rows, 1) if row]
    if len(places) < 2:
        raise DataError(f"{path}: has {len(places)} lines; a header and at least one row are needed.")
    header, *body = filter(None, rows)
    others = [other for other in SEPARATORS if other in header[0]]
    if len(header) == 1 and others:
        raise DataError(
            f"{path}: separator {separator!r} makes one column of {header[0]!r}. Set separator = {others[0]!r}."
        )
    if len(set(header)) < len(header):
        raise DataError(f"{path}: two columns have the same name: {', '.join(header)}.")
    for place, row in zip(places[1:], body, strict=True):
        if len(row) != len(header):
            raise DataError(f"{path}: row {place} has {len(row)} values for {len(header)} columns.")
    columns = {name: np.array(column) for name, column in zip(header, zip(*body, strict=True), strict=True)}
    return Table(columns, places[1:])


def read_parquet(path: Path) -> Table:
    """The columns of a parquet table."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            "parquet tables are read by the package pyarrow: pip install 'fedskew[table]'."
        ) from error
    try:
        file = parquet.ParquetFile(path)
        size = sum(file.metadata.row_group(k).total_byte_size for k in range(file.num_row_groups))
        if max(size, file.metadata.num_rows * file.metadata.num_columns) > LARGEST_PARQUET:
            raise DataError(f"{path}: unpacks to more than {LARGEST_PARQUET:,} bytes, so it was not read.")
        table = file.read()
        columns = {name: as_array(table[name]) for name in table.column_names}
        return Table(columns, range(2, 2 + table.num_rows))
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: is no whole parquet table ({error}).") from error


def as_array(column: Any) -> NDArray[Any]:
    """A column of pyarrow: numbers as they are, everything else as text; a text that is missing is empty."""
    values = np.asarray(column.to_numpy())
    if values.dtype.kind in "biuf":
        return values
    return np.array(["" if value is None else str(value) for value in column.to_pylist()])


def pool(options: CSV | Parquet, table: Table, path: Path) -> Dataset:
    """The rows of a table as a dataset."""
    special = [
        name for name in (options.label, options.client, options.test, *options.drop) if name is not None
    ]
    columns = table.columns
    for name in special:
        if name not in columns:
            raise DataError(f"{path}: {unknown('column', name, columns)}")
    inputs = [name for name in columns if name not in special]
    if not inputs:
        raise DataError(f"{path}: no column is left as an input.")
    for name in filter(None, (options.label, options.client)):
        if columns[name].dtype.kind == "U":
            columns[name] = np.char.strip(columns[name])
        empty = [str(value).strip() == "" for value in columns[name].tolist()]
        if any(empty):
            raise DataError(
                f"{path}: row {table.places[empty.index(True)]} has no {name!r}. Fill it or drop the row."
            )
    kinds = np.unique(columns[options.label])
    rows = len(table.places)
    if len(kinds) > max(50, rows / 2) and not np.isnan([_number(kind) for kind in kinds]).any():
        raise DataError(
            f"{path}: column {options.label!r} has {len(kinds)} different numbers in {rows} rows: "
            "that is a quantity, and classes are wanted. Sort it into a few of them first."
        )
    if len(kinds) < 2:
        raise DataError(f"{path}: column {options.label!r} has one class only; at least two are needed.")
    return from_arrays(
        np.stack([_told_apart(numbers(table, name, path), name, path) for name in inputs], axis=1),
        columns[options.label],
        client=None if options.client is None else columns[options.client],
        test=None if options.test is None else flags(columns[options.test], options.test, path),
        normalise=options.normalise,
        seed=options.seed,
        name=str(path),
    )._replace(name=options.name)


def numbers(table: Table, name: str, path: Path) -> NDArray[np.float64]:
    """A column as finite numbers."""
    column = table.columns[name]
    try:
        values = column.astype(np.float64)
    except (ValueError, TypeError):  # which do not say in which row
        values = np.array([_number(cell) for cell in column.tolist()])
    bad = np.flatnonzero(~(np.abs(values) <= np.finfo(np.float32).max))
    if len(bad):
        raise DataError(
            f"{path}: row {table.places[bad[0]]} has {str(column[bad[0]])!r} in column {name!r}, which is no finite "
            f"number ({len(bad)} of {len(column)} rows). Mend it, or train without the column: drop = [{name!r}]."
        )
    return values


def _told_apart(values: NDArray[np.float64], name: str, path: Path) -> NDArray[np.float64]:
    """The values, unless single precision has one number for all of them."""
    largest = np.abs(values).max()
    if 0 < values.std() < 100 * np.spacing(np.float32(largest)):
        raise DataError(
            f"{path}: the values of column {name!r} lie too close together for single precision, near "
            f"{largest:g}. Subtract a constant from them, or train without the column: drop = [{name!r}]."
        )
    return values


def _number(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def flags(column: NDArray[Any], name: str, path: Path) -> NDArray[np.bool_]:
    """A column that says which rows are held out for testing."""
    values = texts(column) if column.dtype.kind == "f" and np.isin(column, (0, 1)).all() else column.tolist()
    words = [str(value).strip().lower() for value in values]
    if strange := sorted(set(words) - {*TRUE, *FALSE}):
        raise DataError(
            f"{path}: column {name!r} has {strange[0]!r}, which is none of {', '.join(TRUE + FALSE)}."
        )
    return np.array([word in TRUE for word in words])
