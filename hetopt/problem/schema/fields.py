"""Field types of the problem file, with the error messages of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hetopt.base.words import describe, suggest
from hetopt.problem.cluster.cluster import Offload, Staging, host_fault
from hetopt.problem.model.block import Attention
from hetopt.problem.model.model import Granularity, Norm
from hetopt.problem.quantity import (
    TOO_MANY_BYTES,
    parse_bandwidth,
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

#: Most characters of a name; paths are names, too.
MAX_NAME = 1000
#: Largest whole number of a field; products of larger ones exceed 64 bits.
MAX_WHOLE = 10**9
#: Most layers of a model; a unit is made for each of them.
MAX_LAYERS = 10**5


def field_error(message: str, *path: str | int) -> PydanticCustomError:
    """Return the error with ``message`` about the value at ``path`` in this field."""
    return PydanticCustomError(
        "field", "{message}", {"message": message, "path": list(path)}
    )


def unknown(name: str, what: str, known: Iterable[str]) -> str:
    """Return a message about an unknown name, with a near one and all known ones."""
    known = list(known)
    hint = suggest(name, known)
    return f"is {describe(name)}{hint}, expected {what}: {', '.join(known)}"


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
            raise field_error(msg)
        for key in value:
            if key not in cls.model_fields:
                msg = "is not a known field, expected one of {names}"
                context = {"names": names, "path": [key]}
                raise PydanticCustomError("unknown_field", msg, context)
        for key, info in cls.model_fields.items():
            if info.is_required() and key not in value:
                wanted = re.split(r"[.;](?:\s|$)", str(info.description))[0]
                wanted = wanted[0].lower() + wanted[1:]
                raise field_error(f"is missing, expected {wanted}", key)
        return value


def whole(minimum: int, maximum: int = MAX_WHOLE) -> Callable[[Any], int]:
    """Return a reader of whole numbers from ``minimum`` to ``maximum``."""

    def read(value: Any) -> int:
        expected = f"expected a whole number of at least {minimum}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise field_error(f"is {describe(value)}, {expected}")
        if value < minimum:
            raise field_error(f"is {describe(value)}, {expected}")
        if value > maximum:
            raise field_error(f"is {describe(value)}, expected at most {maximum}")
        return value

    return read


def choice(names: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return a reader of one of ``names``."""

    def read(value: Any) -> Any:
        # 1.0 and true are equal to 1, but not the same.
        if value not in names or type(value) is not type(names[0]):
            listed = tuple(map(str, names))
            alike = isinstance(value, str) and isinstance(names[0], str)
            hint = suggest(value, listed) if alike else ""
            msg = f"is {describe(value)}{hint}, expected one of {', '.join(listed)}"
            raise field_error(msg)
        return value

    return read


def read_flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise field_error(f"is {describe(value)}, expected true or false")
    return value


def read_text(value: Any) -> str:
    """Read a name; a whole number is converted to text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise field_error(f"is {describe(value)}, expected a name")
    if len(value) > MAX_NAME:
        msg = f"has {len(value)} characters, expected at most {MAX_NAME}"
        raise field_error(msg)
    if not value.isprintable():
        raise field_error("contains characters that cannot be printed")
    return value


def read_host(value: Any) -> str:
    """Read a host's name or address."""
    host = read_text(value)
    fault = host_fault(host)
    if fault:
        raise field_error(fault)
    return host


def read_mapping(value: Any) -> dict[str, Any]:
    """Read a mapping whose keys are the names of clusters."""
    if not isinstance(value, dict):
        msg = f"is {describe(value)}, expected a mapping from cluster names"
        raise field_error(msg)
    return value


def several(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of one value or a list of them, without repetitions."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            return (read(value),)
        if not value:
            raise field_error("is an empty list, expected at least one value")
        result = read_each(read, value)
        for index, item in enumerate(result):
            if item in result[:index]:
                raise field_error(f"is {describe(item)} a second time", index)
        return result

    return read_all


def read_each(
    read: Callable[[Any], Any], value: list[Any] | tuple[Any, ...]
) -> tuple[Any, ...]:
    """Read every item of a list; an error names the item's position."""
    result = []
    for index, item in enumerate(value):
        try:
            result.append(read(item))
        except PydanticCustomError as error:
            context = error.context or {}
            message = context.get("message", str(error))
            raise field_error(message, index, *context.get("path", ())) from None
    return tuple(result)


def listed(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of a list."""

    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise field_error(f"is {describe(value)}, expected a list")
        return read_each(read, value)

    return read_list


def or_none(read: Callable[[Any], Any]) -> BeforeValidator:
    """Return a validator that keeps None and reads every other value."""
    return BeforeValidator(lambda value: None if value is None else read(value))


def positive(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader that also refuses values of 0 or less."""

    def read_positive(value: Any) -> Any:
        result = read(value)
        if not result > 0:
            raise field_error(f"is {describe(value)}, expected more than 0")
        return result

    return read_positive


def read_memory(value: Any) -> int:
    """Read a memory size of less than 1 PB."""
    size_bytes = parse_memory(value)
    if size_bytes >= TOO_MANY_BYTES:
        raise field_error(f"is {describe(value)}, expected less than 1 PB")
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

Count = Annotated[int, Field(ge=1), BeforeValidator(whole(1))]
LayerCount = Annotated[int, Field(ge=1), BeforeValidator(whole(1, MAX_LAYERS))]
OptionalLayerCount = Annotated[
    int | None, or_none(whole(1, MAX_LAYERS)), WithJsonSchema(_WHOLE)
]
OptionalCount = Annotated[int | None, or_none(whole(1)), WithJsonSchema(_WHOLE)]
Name = Annotated[str, BeforeValidator(read_text)]
OptionalName = Annotated[
    str | None, or_none(read_text), WithJsonSchema({"type": "string"})
]
Flag = Annotated[bool, BeforeValidator(read_flag)]
OptionalFlag = Annotated[
    bool | None, or_none(read_flag), WithJsonSchema({"type": "boolean"})
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
NameList = Annotated[tuple[str, ...] | None, or_none(listed(read_text)), _NAMES]
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
OptionalNorm = Annotated[Norm | None, or_none(choice(get_args(Norm)))]
OptionalAttention = Annotated[Attention | None, or_none(choice(get_args(Attention)))]
OptionalGranularity = Annotated[
    Granularity | None, or_none(choice(get_args(Granularity)))
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
        except PydanticCustomError as error:
            context = error.context or {}
            path = context.get("path", ())
            raise field_error(str(context["message"]), key, *path) from None
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
        raise field_error(f"is {describe(value)}, {expected}")
    return number


def read_epsilon(value: Any) -> float:
    """Read 0.05 or "1/20"."""
    given = value
    if isinstance(value, str) and re.fullmatch(r"1/[1-9]\d{0,3}", value.strip()):
        given = 1 / int(value.strip()[2:])
    if not is_epsilon(given):
        raise field_error(f"is {describe(value)}, {EPSILON_EXPECTED}")
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
    raise field_error(msg)
