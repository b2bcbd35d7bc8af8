"""Reads the arguments, runs one command, turns errors into codes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from hetopt import __version__
from hetopt.cli import (
    STOPPED,
    calibrate,
    catalog,
    check,
    compare,
    convert_profile,
    explain,
    export,
    forest,
    formulate,
    import_,
    init,
    inventory,
    plan,
    profile,
    schema,
    simulate,
    table,
    verify,
)
from hetopt.cli.output import complain, discard_output
from hetopt.errors import (
    CheckError,
    HetoptError,
    InfeasibleError,
    InputError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (
    init,
    inventory,
    plan,
    compare,
    check,
    verify,
    simulate,
    export,
    import_,
    explain,
    table,
    catalog,
    schema,
    formulate,
    profile,
    convert_profile,
    forest,
    calibrate,
)

#: Exit codes beside STOPPED: what the user wrote, no plan or a failed check.
BAD_INPUT = 2
NO_PLAN = 1


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        complain(f"{self.prog}: {message.removeprefix('argument ')}")
        raise SystemExit(BAD_INPUT)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    root = _Parser(
        prog="hetopt",
        description="Choose how to parallelise LLM training on a mixed cluster, "
        "with proof.",
        epilog="Exit codes: 0 done, or a checked plan was printed; 1 no feasible plan, "
        "or a check failed; 2 bad input; 3 stopped without a plan.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"hetopt {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        # ``import_``, as ``import`` is no name for a module.
        name = module.__name__.rpartition(".")[2].rstrip("_").replace("_", "-")
        summary = (module.__doc__ or "").partition("\n")[0].rstrip(".")
        command = commands.add_parser(
            name,
            help=summary[:1].lower() + summary[1:],
            description=f"{summary}.",
            allow_abbrev=False,
        )
        command.add_argument(
            "--version", action="version", version=f"hetopt {__version__}"
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return root


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code; see ``hetopt.cli.main``."""
    try:
        options = parser().parse_args(arguments)
        code: int = options.run(options)
    except InputError as error:
        complain(str(error))
        return BAD_INPUT
    except InfeasibleError as error:
        complain(f"no feasible plan: {error}")
        return NO_PLAN
    except CheckError as error:
        complain(*error.findings)
        return NO_PLAN
    except HetoptError as error:
        complain(f"stopped: {error}")
        return STOPPED
    except BrokenPipeError:
        # Help text into a closed pipe; what commands print goes through emit().
        discard_output()
        return 0
    return code
