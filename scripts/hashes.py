r"""Write requirements/*.txt: the versions of constraints.txt with the hashes of all their files.

    python scripts/hashes.py [--check]

For installations in which pip takes no other file than these:

    pip install --only-binary :all: --require-hashes -r requirements/torch.txt \
        -r requirements/flower.txt
    pip install --no-deps pfedfair

`core.txt` is what everybody needs, and a part of each extra's file. PyTorch is apart, with what
only it needs: its builds without CUDA are not on the index, and have other hashes. Hashes are those
of the index, for all platforms; `uv` asks for them. With --check nothing is written, and a file
that would be another is an error.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
DEVELOPERS = "dev"
OF_TORCH = re.compile(r"(torch|triton|nvidia-.+|cuda-.+)==")
EXTRAS = re.compile(r"\[.*\]==")
BASES = {"simulation": "flower"}
Blocks = dict[str, str]  # by the line of a package, with its version: that and its hashes


def extras() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return [e for e in tomllib.loads(text)["project"]["optional-dependencies"] if e != DEVELOPERS]


def resolve(extra: str = "") -> Blocks:
    """Return the packages of the core and an extra; of those without a constraint, as they were."""
    before = "".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.txt")))
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    names = set(re.findall(r"^([\w.-]+)==", pinned.lower().replace("_", "-"), re.MULTILINE))
    others = map("".join, re.findall(r"^([\w.-]+)(?:\[.*\])?(==[^ ]+)", before, re.MULTILINE))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        kept = {line for line in others if line.partition("==")[0] not in names}
        constraints.write("\n".join([pinned, *sorted(kept)]))
        constraints.flush()
        uv = str(Path(sys.executable).with_name("uv"))  # which Flower brings
        command = [uv, "pip", "compile", "--quiet", "--no-config", "--universal", "--no-header"]
        command += ["--generate-hashes", "--no-annotate", "--no-strip-extras"]
        command += ["--constraint", constraints.name]
        command += ["pyproject.toml", *(["--extra", extra] if extra else [])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"uv: {done.stderr.strip()}")
    found = re.findall(r"^\S.*(?:\n .*)*", done.stdout, re.MULTILINE)
    # pip looks for a package and for the same with extras apart.
    both = [one for block in found for one in dict.fromkeys([EXTRAS.sub("==", block), block])]
    return {block.split("\n")[0]: block for block in both}


def files() -> dict[str, str]:
    """Return the content of each file, by its name."""
    core = resolve()
    torch = {line: block for line, block in core.items() if OF_TORCH.match(line)}
    parts = {"torch": torch, "core": {line: core[line] for line in core if line not in torch}}
    heads = dict.fromkeys(parts, "# By scripts/hashes.py.")
    for extra in extras():  # "simulation" after "flower"
        base = BASES.get(extra, "core")
        known = core.keys() | parts[base].keys()
        parts[extra] = {k: v for k, v in resolve(extra).items() if k not in known}
        heads[extra] = f"{heads['core']}\n-r {base}.txt"
    return {f"{n}.txt": "\n".join([heads[n], *parts[n].values(), ""]) for n in parts}


def main() -> None:
    found = files()
    if "--check" in sys.argv:
        present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.txt")}
        different = [n for n in found | present if found.get(n) != present.get(n)]
        if different:
            sys.exit(f"Not as the index has it: {', '.join(sorted(different))}; see make hashes.")
        return
    FOLDER.mkdir(exist_ok=True)
    for name, text in found.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
