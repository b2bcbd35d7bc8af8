"""Field types of the problem file, with the error messages of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from hetopt.base.fields import (
    choice,
    each,
    flag,
    name,
    whole,
)
from hetopt.base.record import Fault, UnknownField
from hetopt.base.words import describe
from hetopt.problem.cluster.cluster import Offload, Staging, host_fault
from hetopt.problem.quantity import (
    TOO_MANY_BYTES,
    parse_bandwidth,
    parse_flops,
    parse_memory,
    parse_time,
)
from hetopt.problem.training.choices import (
    RECOMPUTE,
    RESHARDING,
    Emulated,
    Gradients,
    Kernel,
    Optimizer,
    Precision,
    Recompute,
    Resharding,
)
from hetopt.problem.training.training import EPSILON_EXPECTED, is_epsilon


def optional(text: str) -> Any:
    """Return a field that may be left out; ``text`` is its description."""
    return Field(None, description=text)


class Strict(BaseModel):
    """A mapping in which an unknown key is an error that suggests the right one.

    Required fields have a description, which the error about a missing one quotes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        names = list(cls.model_fields)
        if not isinstance(value, dict):
            msg = f"is {describe(value)}, expected a mapping with {', '.join(names)}"
            raise Fault(msg)
        for key in value:
            if key not in cls.model_fields:
                raise UnknownField(key, tuple(names))
        for key, info in cls.model_fields.items():
            if info.is_required() and key not in value:
                wanted = re.split(r"[.;](?:\s|$)", str(info.description))[0]
                wanted = wanted[0].lower() + wanted[1:]
                raise Fault(f"is missing, expected {wanted}", key)
        return value


def read_host(value: Any) -> str:
    """Read a host's name or address."""
    host = name(value)
    fault = host_fault(host)
    if fault:
        raise Fault(fault)
    return host


def read_mapping(value: Any) -> dict[str, Any]:
    """Read a mapping whose keys are the names of clusters."""
    if not isinstance(value, dict):
        msg = f"is {describe(value)}, expected a mapping from cluster names"
        raise Fault(msg)
    return value


def several(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of one value or a list of them, without repetitions."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            return (read(value),)
        if not value:
            raise Fault("is an empty list, expected at least one value")
        result = each(read, value)
        for index, item in enumerate(result):
            if item in result[:index]:
                raise Fault(f"is {describe(item)} a second time", index)
        return result

    return read_all


def listed(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of a list."""

    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Fault(f"is {describe(value)}, expected a list")
        return each(read, value)

    return read_list


def or_none(read: Callable[[Any], Any]) -> BeforeValidator:
    """Return a validator that keeps None and reads every other value."""
    return BeforeValidator(lambda value: None if value is None else read(value))


def positive(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader that also refuses values of 0 or less."""

    def read_positive(value: Any) -> Any:
        result = read(value)
        if not result > 0:
            raise Fault(f"is {describe(value)}, expected more than 0")
        return result

    return read_positive


def read_memory(value: Any) -> int:
    """Read a memory size of less than 1 PB."""
    size_bytes = parse_memory(value)
    if size_bytes >= TOO_MANY_BYTES:
        raise Fault(f"is {describe(value)}, expected less than 1 PB")
    return size_bytes


def quantity_schema(*examples: str) -> WithJsonSchema:
    """Return the JSON Schema of a quantity with a unit."""
    return WithJsonSchema({"type": ["string", "number"], "examples": list(examples)})


def _values_schema(item: dict[str, Any]) -> WithJsonSchema:
    many = {"type": "array", "items": item, "minItems": 1}
    return WithJsonSchema({"anyOf": [item, many]})


def _names_schema(names: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


_WHOLE = {"type": "integer", "minimum": 1}
_RATES = quantity_schema("100 Gbps", "12.5 GB/s")
_NAMES = WithJsonSchema({"type": "array", "items": {"type": "string"}})

OptionalCount = Annotated[int | None, or_none(whole(1)), WithJsonSchema(_WHOLE)]
OptionalName = Annotated[str | None, or_none(name), WithJsonSchema({"type": "string"})]
OptionalFlag = Annotated[
    bool | None, or_none(flag), WithJsonSchema({"type": "boolean"})
]
Bandwidth = Annotated[float, BeforeValidator(positive(parse_bandwidth)), _RATES]
OptionalBandwidth = Annotated[float | None, or_none(positive(parse_bandwidth)), _RATES]
OptionalLatency = Annotated[
    float | None, or_none(parse_time), quantity_schema("5 us", "1 ms")
]
OptionalMemory = Annotated[
    int | None, or_none(positive(read_memory)), quantity_schema("80 GB", "80 GiB")
]
FLOPS_SCHEMA = {"type": ["string", "number"], "examples": ["312 TFLOPS"]}
OptionalFlops = Annotated[
    float | None, or_none(positive(parse_flops)), WithJsonSchema(FLOPS_SCHEMA)
]

Counts = Annotated[
    tuple[int, ...] | None, or_none(several(whole(1))), _values_schema(_WHOLE)
]
CountsFromZero = Annotated[
    tuple[int, ...] | None,
    or_none(several(whole(0))),
    _values_schema({"type": "integer", "minimum": 0}),
]
CountList = Annotated[
    tuple[int, ...] | None,
    or_none(listed(whole(1))),
    WithJsonSchema({"type": "array", "items": _WHOLE}),
]
NameList = Annotated[tuple[str, ...] | None, or_none(listed(name)), _NAMES]
HostList = Annotated[tuple[str, ...] | None, or_none(listed(read_host)), _NAMES]
Policies = Annotated[
    tuple[Recompute, ...] | None,
    or_none(several(choice(RECOMPUTE))),
    _values_schema(_names_schema(RECOMPUTE)),
]
Reshardings = Annotated[
    tuple[Resharding, ...] | None,
    or_none(several(choice(RESHARDING))),
    _values_schema(_names_schema(RESHARDING)),
]
OptionalOffload = Annotated[Offload | None, or_none(choice(get_args(Offload)))]
OptionalStaging = Annotated[Staging | None, or_none(choice(get_args(Staging)))]
PrecisionName = Annotated[Precision, BeforeValidator(choice(get_args(Precision)))]
OptionalEmulated = Annotated[Emulated | None, or_none(choice(get_args(Emulated)))]
KernelName = Annotated[Kernel, BeforeValidator(choice(get_args(Kernel)))]
GradientsName = Annotated[Gradients, BeforeValidator(choice(get_args(Gradients)))]
OptimizerName = Annotated[Optimizer, BeforeValidator(choice(get_args(Optimizer)))]
ZeroStage = Annotated[Literal[0, 1, 2, 3], BeforeValidator(choice((0, 1, 2, 3)))]

AUTO = "auto"


def _read_policies(value: Any) -> tuple[str, ...]:
    if value == AUTO:
        return RECOMPUTE
    chosen = several(choice((AUTO, *RECOMPUTE)))(value)
    return RECOMPUTE if AUTO in chosen else chosen


def read_recompute(value: Any) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """Read ``auto``, a policy, a list of them, or any of these per cluster."""
    if not isinstance(value, dict):
        return _read_policies(value)
    result = {}
    for key, item in value.items():
        try:
            result[key] = _read_policies(item)
        except Fault as fault:
            raise fault.inside(key) from None
    return result


def read_fraction(value: Any) -> float:
    """Read 0.06 or "6%"."""
    expected = "expected a fraction such as 0.06 or '6%', at least 0 and less than 1"
    number: float | None = None
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            number = float(value.strip()[:-1]) / 100
        except ValueError:
            number = None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # Compared before it is converted: a whole number may be too large for a float.
        number = float(value) if 0 <= value < 1 else None
    if number is None or not 0 <= number < 1:
        raise Fault(f"is {describe(value)}, {expected}")
    return number


def read_epsilon(value: Any) -> float:
    """Read 0.05 or "1/20"."""
    given = value
    if isinstance(value, str) and re.fullmatch(r"1/[1-9]\d{0,3}", value.strip()):
        given = 1 / int(value.strip()[2:])
    if not is_epsilon(given):
        raise Fault(f"is {describe(value)}, {EPSILON_EXPECTED}")
    return float(1 / round(1 / given))


#: Token budgets are powers of two: 2M tokens are 2 * 2**20.
_TOKEN_PREFIXES = {"k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "B": 2**30}


def read_batch(value: Any) -> int | str:
    """Read a number of sequences, or keep a text that counts tokens."""
    if isinstance(value, str):
        read_tokens(value)
        return value
    return whole(1)(value)


def read_tokens(text: str) -> int:
    """Return the number of tokens in "2M tokens" or "2097152 tokens"."""
    words = text.split()
    if len(words) == 3:
        words = [words[0] + words[1], words[2]]
    if len(words) == 2 and words[1] in ("tokens", "token"):
        number, factor = words[0], _TOKEN_PREFIXES.get(words[0][-1], 1)
        digits = number[:-1] if factor > 1 else number
        if digits.isascii() and digits.isdigit() and 0 < len(digits) < 16:
            tokens = int(digits) * factor
            if tokens > 0:
                return tokens
    msg = f"is {describe(text)}, expected sequences such as 128 or '2M tokens'"
    raise Fault(msg)
