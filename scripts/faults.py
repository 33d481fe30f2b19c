"""Run the tests of tests/faults.toml and write docs/faults.md from what they did.

    python scripts/faults.py [WORD ...]

With words, only tests that have one of them in their name; of the others what the last call found
is taken, from build/faults.json. A test that is not there, or fails, is an error and nothing is
written; one that was skipped (no nginx, no Ray) is "not run" in the table, with the reason.
"""

import json
import logging
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pfedfair._util.errors import InputError

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "faults.json"
LONGEST = 160  # characters of what was said
FAULT = re.compile(r"refused|failed|did not answer|shortened|no model|lacks|not used|gone|error")
NEVER = """\
- A clock that runs at another speed than the server's, in real processes. (Flower refuses requests
  that are some minutes off; our own waits use a clock that does not jump.)
- A disk that says it has written and has not.
- Several sites that lie together: half of them or more win against any median.
- A lying site that stays just below the limits for many rounds.
- A SuperLink that is itself malicious, beyond what a site refuses from any server.
- A network that is slow, loses packets or splits; a name server that lies.
- Another machine than one: all processes were on loopback.
"""


class _Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


class Seen:
    """What pytest reports of each test, all its cases together: kept from one call to the next."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        if KEPT.exists():
            self.tests = json.loads(KEPT.read_text(encoding="utf-8"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Keep what a run's log, or else an error, says first of the fault."""
        lines, errors = _Lines(), list[str]()
        plain = InputError.__init__

        def noted(self: InputError, *words: object) -> None:
            errors.append(" ".join(map(str, words)))
            plain(self, *words)

        logger = logging.getLogger("flwr")
        logger.addHandler(lines)
        setattr(InputError, "__init__", noted)  # noqa: B010  (mypy knows that it is no plain name)
        try:
            return (yield)
        finally:
            setattr(InputError, "__init__", plain)  # noqa: B010
            logger.removeHandler(lines)
            folder = getattr(item, "funcargs", {}).get("tmp_path")
            for log in sorted(folder.rglob("server.log")) if folder else ():
                lines.said += log.read_text(encoding="utf-8").splitlines()
            told = [line for line in lines.said if FAULT.search(line)] or errors
            if told:
                text = told[0].removeprefix("pfedfair: ").replace(str(folder), "FOLDER")
                item.user_properties.append(("said", text))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, _, case = report.nodeid.partition("[")
        told = self.tests.setdefault(name, {"cases": {}, "why": ""})
        if report.when == "call" or report.outcome != "passed":
            told["cases"][case] = report.outcome
        if report.when == "call":
            told |= dict(report.user_properties)
        if report.skipped and isinstance(report.longrepr, tuple):
            told["why"] = str(report.longrepr[2]).removeprefix("Skipped: ")

    def ran(self, fault: dict[str, Any]) -> bool:
        return any("passed" in self.tests[n]["cases"].values() for n in fault["tests"])

    def keep(self) -> None:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(self.tests, indent=1), encoding="utf-8")


def shown(text: str) -> str:
    """What was said, in a cell of a table."""
    text = " ".join(text.split()).replace("|", "\\|")
    short = text if len(text) <= LONGEST else text[: LONGEST - 4].rsplit(" ", 1)[0] + " ..."
    return f"`` {short} ``" if short else ""


def row(fault: dict[str, Any], seen: Seen) -> str:
    names = fault["tests"]
    cases = [outcome for name in names for outcome in seen.tests[name]["cases"].values()]
    ran = cases.count("passed")
    if not ran:
        came = f"not run: {seen.tests[names[0]]['why']}"
    else:
        came = f"as expected, {ran} case{'s' * (ran > 1)}"
    said = next((seen.tests[name]["said"] for name in names if "said" in seen.tests[name]), "")
    recovered = seen.tests[names[0]].get(fault.get("seconds", ""))
    seconds = "" if recovered is None else f"{recovered:.0f}"
    kind = "processes" if fault.get("real") else "one process"
    tests = ", ".join(f"`{name.split('::')[1]}`" for name in names)
    cells = (fault["what"], fault["when"], fault["expected"], came, shown(said), seconds)
    return "| " + " | ".join((*cells, fault["weights"], kind, tests)) + " |"


def number(attack: dict[str, Any], seen: Seen) -> str:
    """An attack's row: what it gets by guessing, without our limits, and by default."""
    told = seen.tests[attack["tests"][0]]
    found = [str(told.get(name, "")) for name in ("open", "default")]
    if not any(found):
        found[1] = f"not run: {told['why']}"
    test = attack["tests"][0].split("::")[1]
    cells = (attack["what"], attack["who"], attack["base"], *found, f"`{test}`")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    listed = tomllib.loads((ROOT / "tests" / "faults.toml").read_text(encoding="utf-8"))
    faults, attacks = listed["fault"], listed["attack"]
    names = list(dict.fromkeys(name for fault in faults + attacks for name in fault["tests"]))
    chosen = [name for name in names if any(word in name for word in sys.argv[1:] or [""])]
    seen = Seen()
    for name in chosen:
        seen.tests.pop(name, None)
    pytest.main(["-q", "-m", "", f"--rootdir={ROOT}", *(str(ROOT / n) for n in chosen)], [seen])
    seen.keep()
    unknown = [n for n in chosen if not seen.tests.get(n, {}).get("cases")]
    for name in names:
        seen.tests.setdefault(name, {"cases": {}, "why": "not this time"})
    failed = [n for n in names if "failed" in seen.tests[n]["cases"].values()]
    if unknown or failed:
        sys.exit(f"docs/faults.md is as it was: not there {unknown}, failed {failed}.")
    cases = sum(len(seen.tests[name]["cases"]) for name in names)
    heads = ("what fails or attacks", "when", "expected", "seen", "what was said of it")
    head = "| " + " | ".join((*heads, "seconds to recover", "weights", "ran in", "test")) + " |"
    lines = [
        "# What fails, and what follows",
        "",
        "Made by `make faults` from tests that ran; `tests/faults.toml` names them. Weights:",
        "*same* as without the fault, or *others'*, exactly those of the sites that took part;",
        "empty where the tests do not compare weights. Seconds to recover are those of real",
        "processes that died, on a busy machine of two cores with a limit of 30 s for a round.",
        "What was said of it is the first line on it in the run's log, or the error, of the last",
        "case.",
        "",
        head,
        "|" + "---|" * 9,
        *(row(fault, seen) for fault in faults),
        "",
        f"{sum(map(seen.ran, faults))} of {len(faults)} faults ran, {cases} cases. "
        "The slow ones are not in `make test`.",
        "",
        "## What attacks get",
        "",
        "Each is a test that runs the attack on the project's own code; it fails if it gets more.",
        "",
        "| attack | by whom | base rate | without limits | by default | test |",
        "|" + "---|" * 6,
        *(number(attack, seen) for attack in attacks),
        "",
        "## What was never tried",
        "",
        NEVER,
    ]
    (ROOT / "docs" / "faults.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
