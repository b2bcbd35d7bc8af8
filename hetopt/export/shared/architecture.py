"""The architecture of a model, and how the one that a runtime trains differs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe
from hetopt.export.launcher import Loss
from hetopt.problem.model.architecture import (
    ARCHITECTURE_FIELDS,
    Architecture,
    RotaryScaling,
)
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.latent import Latent
from hetopt.problem.model.stated import stated

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hetopt.problem.model.model import Model


#: Longer texts and lists are cut in what is said of them.
_LONGEST, _MOST_SHOWN = 60, 8


def as_said(model: Model, can: Collection[str], **own: Any) -> Model:
    """Return the model that a runtime trains.

    Parameters
    ----------
    can
        Fields of an architecture that the runtime has settings for.
    own
        Fields for which the runtime has its own value. All other fields have their
        defaults.
    """
    kept = {
        field: getattr(model.architecture, field)
        for field in ARCHITECTURE_FIELDS
        if field in can
    }
    return replace(model, architecture=Architecture(**kept | own))


def architecture_losses(model: Model, said: Model) -> Iterator[Loss]:
    """Yield how the model that a runtime trains differs from the problem's.

    Parameters
    ----------
    said
        As ``as_said`` returns it.
    """
    for field in ARCHITECTURE_FIELDS:
        wanted, given = stated(model, field), stated(said, field)
        if wanted == given or (field == "activation" and wanted is None):
            continue
        if field == "full_layers" and not said.architecture.full_layers:
            # The loss of the window, or of layers without rotary embedding, covers it.
            continue
        if field == "rotary_local_base" and not model.architecture.differs(field):
            continue
        instead = f"{field} {shown(given)}"
        if field == "rotary_local_base" and said.architecture.rotary_scaling:
            instead += ", with the rotary_scaling of all layers"
        yield Loss(
            f"model.{field} {shown(wanted)}: it has no setting for it", instead=instead
        )


def shown(value: object) -> str:
    """Return a value as a problem file has it."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            more = f", ... of {len(value)}" if len(value) > _MOST_SHOWN else ""
            return f"[{', '.join(map(shown, value[:_MOST_SHOWN]))}{more}]"
        case frozenset():
            return " or ".join(sorted(map(shown, value)))
        case RotaryScaling() | Experts() | Latent():
            pairs = ((each.name, getattr(value, each.name)) for each in fields(value))
            told = ", ".join(f"{name}: {shown(each)}" for name, each in pairs)
            return "{" + told + "}"
        case str() if value.isprintable() and len(value) < _LONGEST:
            return value
    return describe(value)
