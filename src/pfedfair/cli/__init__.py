"""The command line."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from pfedfair import __version__, terminal
from pfedfair.algorithms import ALGORITHMS
from pfedfair.cli import audit, compare, decisions, embed, flower, one_run, tune
from pfedfair.errors import InputError, in_a_command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train one model together, give every client its own fair version of it, "
    "and show each client what it got.",
)
for command in (one_run.train, compare.compare, compare.reproduce, compare.report):
    app.command()(command)
for command in (one_run.personalise, one_run.theory, tune.tune, embed.embed):
    app.command()(command)
for command in (decisions.predict, audit.audit, decisions.export):
    app.command()(command)
app.add_typer(flower.app, name="flower")


def _version(asked: bool) -> None:
    if asked:
        print(f"pfedfair {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    pass


INTERRUPTED = 130  # typer's exit code for Ctrl-C
RESUMES = ("compare", "reproduce", "tune")  # commands that keep finished runs


def _typed(word: str) -> str:
    """What was typed, whatever the system's language; names of files are as the system has them."""
    try:
        found = os.fsencode(word).decode()
    except UnicodeError:
        return word
    return word if found == word or Path(word).exists() else found


def main() -> None:
    """Run the command line: exit code 2 and one sentence on bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without our letters shows others
            stream.reconfigure(errors="replace")
    sys.argv[1:] = map(_typed, sys.argv[1:])
    try:
        with in_a_command():
            code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            kept = " Finished runs are kept: the same command goes on from there."
            terminal.errors.print(f"Interrupted.{kept if sys.argv[1] in RESUMES else ''}")
            sys.stderr.flush()
            os._exit(code)  # at once: what the killed workers left undone is nobody's
        sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as nothing:
        print(nothing.format_message())
    except click.NoSuchOption as error:
        setting = error.option_name.lstrip("-").replace("-", "_")
        known = any(setting in method.settings for method in ALGORITHMS.values())
        if known and sys.argv[1] in ("train", "compare"):
            terminal.fail(f"{error.option_name} is a setting: say --set {setting}=VALUE.", 2)
        terminal.fail(error.format_message(), 2)
    except click.ClickException as error:
        terminal.fail(error.format_message(), 2)
    except InputError as error:
        terminal.fail(str(error), 2)
    except UnicodeEncodeError as error:  # of a file's name: all else is UTF-8
        terminal.fail(
            f"This system's language setting cannot write '{error.object}': set LC_ALL=C.UTF-8.", 2
        )
    except OSError as error:
        terminal.fail(f"{error.filename or 'A file'}: {error.strerror or error}.", 2)
