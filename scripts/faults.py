"""Run the tests of tests/faults.toml and write docs/faults.md from what they did.

    python scripts/faults.py [WORD ...]

With words, only tests that have one of them in their name; of the others what the last call found
is taken, from build/faults.json. A test that is not there, or fails, is an error and nothing is
written; one that was skipped (no nginx, no Ray) is "not run" in the table, with the reason.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "faults.json"
NEVER = """\
- A clock that jumps, or runs at another speed than the server's. (Flower refuses requests that are
  some minutes off; our own waits use a clock that does not jump.)
- A disk that says it has written and has not.
- A read-only disk: the tests run as a user who may write everywhere.
- Several sites that lie together: half of them or more win against any median.
- A lying site that stays just below the limits for many rounds.
- A SuperLink that is itself malicious, beyond what a site refuses from any server.
- A network that is slow, loses packets or splits; a name server that lies.
- Another machine than one: all processes were on loopback.
"""


class Seen:
    """What pytest reports of each test, all its cases together: kept from one call to the next."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        if KEPT.exists():
            self.tests = json.loads(KEPT.read_text(encoding="utf-8"))

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


def row(fault: dict[str, Any], seen: Seen) -> str:
    names = fault["tests"]
    cases = [outcome for name in names for outcome in seen.tests[name]["cases"].values()]
    ran = cases.count("passed")
    if not ran:
        said = f"not run: {seen.tests[names[0]]['why']}"
    else:
        said = f"as expected, {ran} case{'s' * (ran > 1)}"
    recovered = seen.tests[names[0]].get(fault.get("seconds", ""))
    seconds = "" if recovered is None else f"{recovered:.0f}"
    kind = "processes" if fault.get("real") else "one process"
    tests = ", ".join(f"`{name.split('::')[1]}`" for name in names)
    cells = (fault["what"], fault["when"], fault["expected"], said, seconds, fault["weights"])
    return "| " + " | ".join((*cells, kind, tests)) + " |"


def main() -> None:
    faults = tomllib.loads((ROOT / "tests" / "faults.toml").read_text(encoding="utf-8"))["fault"]
    names = list(dict.fromkeys(name for fault in faults for name in fault["tests"]))
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
    heads = ("what fails or attacks", "when", "expected", "seen", "seconds to recover", "weights")
    head = "| " + " | ".join((*heads, "ran in", "test")) + " |"
    lines = [
        "# What fails, and what follows",
        "",
        "Made by `make faults` from tests that ran; `tests/faults.toml` names them. Weights:",
        "*same* as without the fault, or *others'*, exactly those of the sites that took part;",
        "empty where the tests do not compare weights. Seconds to recover are those of real",
        "processes that died, on a busy machine of two cores with a limit of 30 s for a round.",
        "",
        head,
        "|" + "---|" * 8,
        *(row(fault, seen) for fault in faults),
        "",
        f"{sum(map(seen.ran, faults))} of {len(faults)} faults ran, {cases} cases. "
        "The slow ones are not in `make test`.",
        "",
        "## What was never tried",
        "",
        NEVER,
    ]
    (ROOT / "docs" / "faults.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
