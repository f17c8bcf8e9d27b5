"""The command line: one command a module, loaded when it is called."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError, UnknownOptionError, UnusedCliTokensError

from . import __version__

COMMANDS = {
    "reproduce": "The paper with one command: its figures, a report and the headline numbers.",
    "train": "Train the student of one or more seeds.",
    "rollout": "Let a trained student generate states for given actions.",
    "sweep": "Train many configurations and seeds from a grid file.",
    "theory": "Solve a tier of the mean-field theory.",
    "figures": "Draw figures from saved records.",
    "report": "Write the HTML report from saved records.",
    "verify": "Check in half a minute that this installation computes the right things.",
    "bench": "Measure the gradient kernels side by side.",
    "status": "Show what a directory of runs holds.",
}

app = App(
    name="cotflow",
    help="A laboratory for the learning dynamics of chain-of-thought state tracking in a solvable transformer.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
for _name, _help in COMMANDS.items():
    app.command(f"cotflow.commands.{_name}:{_name}", name=_name, help=_help)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; exit with 0 done, 1 failed, 2 bad usage, 130 interrupted."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _leave(2, f"{' '.join(str(error).split())}{_hint(error)}")
    except ValueError as error:
        _leave(2, error)
    except KeyboardInterrupt as interruption:
        _leave(130, interruption or "interrupted")
    except BrokenPipeError:  # whoever read along has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (RuntimeError, OSError) as error:
        _leave(1, error)
    except MemoryError as error:
        _leave(1, f"there is not enough memory for this ({error or 'none is left'})")
    raise SystemExit(0)


def _hint(error: CycloptsError) -> str:
    """Where a word was probably meant to go, or where all options are listed."""
    names = " ".join(error.command_chain or ())
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens and names in ("reproduce", "train", "theory", "bench"):
        from .config import PRESETS

        first = error.unused_tokens[0]
        if first in PRESETS or first.endswith(".toml"):
            return f" Did you mean {'--preset' if first in PRESETS else '--config'} {first}?"
        return " Several numbers are written 0,1,2." if first.isdigit() else ""
    if isinstance(error, UnknownOptionError) and "Did you mean" not in str(error):
        return f" `cotflow {names} --help` lists all options."
    return ""


def _leave(code: int, reason: object) -> NoReturn:
    text = " ".join(str(reason).split()) or "interrupted"
    notes = getattr(reason, "__notes__", [])
    print("; ".join([f"cotflow: {text}", *notes]), file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
