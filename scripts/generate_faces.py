r"""Fill a folder with generated images and a manifest, which pfedfair reads as a data set.

    python scripts/generate_faces.py OUT --pipeline FOLDER --prompts prompts.csv
    python scripts/generate_faces.py OUT --pipeline FOLDER --each 50 \
        --template "a photo of a {sensitive}, {label}" --labels smiling,serious --groups man,woman

FOLDER is a text-to-image pipeline of diffusers that you have downloaded (safetensors only; nothing
is fetched). A CSV of prompts has a column `prompt` and any others, which the manifest keeps. An
image's label is what its prompt asked for, not what it shows: look at the images. A stopped call is
gone on with when it is started again.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]
OWN = ("file", "seed", "generator")  # columns that are written here


class Stop(Exception):  # noqa: N818
    """A sentence for the user."""


def from_template(template: str, labels: Sequence[str], groups: Sequence[str]) -> list[Row]:
    """Return a prompt for every label and group.

    >>> from_template("a {label} {sensitive}", ["smiling"], ["man", "woman"])[1]["prompt"]
    'a smiling woman'
    """
    rows = []
    for label, group in itertools.product(labels, groups):
        try:
            prompt = template.format(label=label, sensitive=group)
        except (KeyError, IndexError, ValueError) as error:
            raise Stop(
                "A template may have {label} and {sensitive} in it, nothing else."
            ) from error
        rows.append({"label": label, "sensitive": group, "prompt": prompt})
    return rows


def from_csv(path: Path) -> list[Row]:
    """Read prompts and the columns beside them."""
    if not path.is_file():
        raise Stop(f"There is no file {path}.")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or "prompt" not in rows[0] or not all(row["prompt"] for row in rows):
        raise Stop(f"{path} needs a column 'prompt' with a prompt in every row.")
    taken = [c for c in OWN if c in rows[0]]
    if taken:
        raise Stop(f"{path} has a column '{taken[0]}', which is written here: rename it.")
    return rows


def plan(prompts: Sequence[Row], each: int, seed: int, generator: str) -> list[Row]:
    """Return the manifest: `each` images for every prompt, every image with a seed of its own."""
    rows = [row for _ in range(each) for row in prompts]
    return [
        {"file": f"{n:06d}.png", **row, "seed": str(seed + n), "generator": generator}
        for n, row in enumerate(rows)
    ]


def listed(out: Path, rows: Sequence[Row]) -> set[str]:
    """Return the files that an earlier call has listed; refuse those of another plan."""
    manifest = out / "manifest.csv"
    if not manifest.is_file():
        return set()
    text = manifest.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]  # a stopped call may have left half a line
    if whole != text:
        manifest.write_text(whole, encoding="utf-8")
    wanted = {row["file"]: row for row in rows}
    before = list(csv.DictReader(io.StringIO(whole)))
    other = next((row["file"] for row in before if wanted.get(row["file"]) != row), None)
    if other:
        raise Stop(
            f"{manifest} was made with other prompts, seeds or another generator ({other}): take "
            "another folder."
        )
    return {row["file"] for row in before}


def fill(
    out: Path, rows: Sequence[Row], draw: Callable[[str, int], Any | None]
) -> Iterator[tuple[Row, bool]]:
    """Draw what is not there yet; yield each row and whether there is an image of it.

    `draw` returns an image that can be saved, or None if the pipeline withheld it.
    """
    out.mkdir(parents=True, exist_ok=True)
    before = listed(out, rows)
    with (out / "manifest.csv").open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for row in rows:
            if row["file"] in before and (out / row["file"]).is_file():
                continue
            image = draw(row["prompt"], int(row["seed"]))
            if image is not None:
                beside = out / f".{row['file']}"
                image.save(beside, format="PNG")
                beside.replace(out / row["file"])
                if row["file"] not in before:
                    writer.writerow(row)
                    file.flush()
            yield row, image is not None


def drawer(pipeline: Any, steps: int, size: int, device: str) -> Callable[[str, int], Any | None]:
    """Return a function that draws one image with a diffusers pipeline."""
    import torch

    def draw(prompt: str, seed: int) -> Any | None:
        result = pipeline(
            prompt=prompt,
            num_inference_steps=steps,
            height=size,
            width=size,
            generator=torch.Generator(device).manual_seed(seed),
        )
        withheld = getattr(result, "nsfw_content_detected", None)
        return None if withheld and withheld[0] else result.images[0]

    return draw


def load(path: Path, device: str) -> Any:
    """Load a pipeline from a local folder."""
    if not (path / "model_index.json").is_file():
        raise Stop(f"{path} is no pipeline of diffusers: it has no model_index.json.")
    try:
        from diffusers import DiffusionPipeline
    except ImportError as error:
        raise Stop("This script needs diffusers: pip install diffusers.") from error
    try:
        made = DiffusionPipeline.from_pretrained(
            path, local_files_only=True, use_safetensors=True
        ).to(device)
    except (OSError, ValueError) as error:
        raise Stop(f"{path} cannot be loaded ({str(error).splitlines()[0]}).") from error
    made.set_progress_bar_config(disable=True)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("out", type=Path, help="the folder to fill")
    add("--pipeline", type=Path, required=True, help="a local folder with a diffusers pipeline")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompts", type=Path, help="a CSV with a column 'prompt'")
    what.add_argument("--template", help="a prompt with {label} and {sensitive} in it")
    add("--labels", default="", help="for the template, with commas between")
    add("--groups", default="", help="for the template, with commas between")
    add("--each", type=int, default=1, help="images for every prompt")
    add("--seed", type=int, default=0, help="of the first image; the next have the next ones")
    add("--name", help="the generator's name in the manifest; by default the folder's")
    add("--steps", type=int, default=30)
    add("--size", type=int, default=512, help="pixels")
    add("--device", default="cpu", help="cpu or cuda")
    given = parser.parse_args(arguments)
    try:
        if given.prompts:
            prompts = from_csv(given.prompts)
        else:
            labels, groups = (
                list(filter(None, v.split(","))) for v in (given.labels, given.groups)
            )
            if not labels or not groups:
                raise Stop("A template needs --labels and --groups.")
            prompts = from_template(given.template, labels, groups)
        rows = plan(prompts, given.each, given.seed, given.name or given.pipeline.resolve().name)
        if not rows:
            raise Stop("--each is the number of images for every prompt, at least 1.")
        draw = drawer(load(given.pipeline, given.device), given.steps, given.size, given.device)
        made = withheld = 0
        for row, there in fill(given.out, rows, draw):
            made, withheld = made + there, withheld + (not there)
            print(f"{row['file']} {row['prompt']}{'' if there else ' (withheld)'}", flush=True)
    except Stop as stop:
        print(f"Error: {stop}", file=sys.stderr)
        return 2
    print(f"{made} new images of {len(rows)} in {given.out}, {withheld} withheld by the pipeline.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
