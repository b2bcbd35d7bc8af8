"""JSON Schema (draft 2020-12) of the latency table, from its declaration."""

from __future__ import annotations

from hetopt.cost.table_file import records
from hetopt.cost.table_file.values import (
    ByName,
    Flag,
    Grid,
    Index,
    OneOf,
    Positive,
    Record,
    Row,
    Text,
    Value,
    Whole,
)
from hetopt.report.schemas.words import (
    DIGEST,
    EPSILON,
    FLAG,
    POSITIVE,
    TEXT,
    Schema,
    by_name,
    described,
    document,
    one_of,
    or_null,
    record,
    row,
    whole,
)


def _of(value: Value) -> Schema:
    schema = or_null(_plain(value)) if value.null else _plain(value)
    return described(schema, value.about) if value.about else schema


def _plain(value: Value) -> Schema:
    """Return the schema of a value, without what is said about it."""
    match value:
        case Flag():
            return FLAG
        case Text():
            return TEXT
        case Positive():
            return POSITIVE
        case Whole():
            highest = {"maximum": value.most} if value.most < _A_FEW else {}
            return {**whole(value.least), **highest}
        case OneOf(words=(word,)):
            return {"const": word}
        case OneOf():
            return one_of(value.words)
        case Index():
            return TEXT if isinstance(value.of, str) else one_of(value.of)
        case Row():
            longest = {} if value.most is None else {"maxItems": value.most}
            return {**row(_of(value.of), value.least), **longest}
        case Grid():
            schema = _of(value.of)
            for _ in value.axes:
                schema = row(schema)
            return schema
        case ByName():
            return by_name(_of(value.of), value.about)
        case Record():
            return record(*_keys(value))
    raise TypeError(value)


def _keys(value: Record) -> tuple[Schema, Schema]:
    """Return the schemas of a record's keys: of those it needs, and of the others."""
    found: tuple[Schema, Schema] = {}, {}
    for key, kind in value.keys.items():
        found[kind.optional][key] = _of(kind)
    return found


#: Ranges that end later are those of numbers in memory.
_A_FEW = 100

_NEEDED, _OTHERS = _keys(records.TABLE)
TABLE: Schema = document(
    "hetopt latency table",
    "Every coefficient a solver reads: whole nanoseconds and bytes.",
    {**_NEEDED, "problem_digest": DIGEST},
    {**_OTHERS, "warmup_epsilon": EPSILON},
)
