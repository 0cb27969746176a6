# SPDX-License-Identifier: Apache-2.0
"""Columns as a pandas DataFrame or a pyarrow Table. A number that the report does not have is missing, never 0."""

from gpuwatch.errors import needed
from gpuwatch.tables import BOOL, FLOAT, INT, INTS, TEXT, TEXTS

PANDAS = {INT: "Int64", FLOAT: "float64", BOOL: "boolean", TEXT: "string", INTS: "object", TEXTS: "object"}
ARROW = {INT: "int64", FLOAT: "float64", BOOL: "bool_", TEXT: "string"}


def data_frame(columns):
    pandas = needed("pandas", "pandas")
    return pandas.DataFrame({column.name: pandas.Series(values, dtype=PANDAS[column.kind]) for column, values in columns})


def arrow_table(columns):
    pyarrow = needed("pyarrow", "export")
    types = {kind: getattr(pyarrow, name)() for kind, name in ARROW.items()}
    types.update({INTS: pyarrow.list_(types[INT]), TEXTS: pyarrow.list_(types[TEXT])})
    fields = [pyarrow.field(column.name, types[column.kind]) for column, _ in columns]
    return pyarrow.table([pyarrow.array(values, field.type) for (_, values), field in zip(columns, fields)], schema=pyarrow.schema(fields))
