"""The command that turns images into numbers: embed."""

from pathlib import Path
from typing import Annotated

import typer

from pfedfair._util import terminal
from pfedfair.cli.options import Quiet, unfold
from pfedfair.data.images.embed import POOLINGS, Report
from pfedfair.data.images.embed import embed as embed_images

SHOWN = 10


@unfold
def embed(
    images: Annotated[Path, typer.Argument(help="The folder with the images.")],
    encoder: Annotated[
        str,
        "dinov2, clip, the folder of a transformers vision model (config.json, "
        "preprocessor_config.json, model.safetensors), or its name on the Hugging Face hub.",
    ],
    out: Annotated[Path, "The embeddings file, .parquet; a second call resumes."],
    batch: Annotated[int, "Images at a time: 8 to 16 are best on a CPU."] = 16,
    threads: Annotated[int | None, "Threads; by default one per core."] = None,
    pooling: Annotated[
        str | None, f"Which numbers of the model: {', '.join(POOLINGS)}; its own if left out."
    ] = None,
    revision: Annotated[str | None, "A commit or branch of the hub."] = None,
    quiet: Quiet = False,
) -> None:
    """Write one row of numbers for each image of a folder, with a frozen encoder.

    Images that cannot be used are named and counted; all of them are in EMB.skipped.csv.

    Example: pfedfair embed img_align_celeba --encoder dinov2 --out celeba.parquet
    """
    if quiet:
        _no_download_bars()
    try:
        with terminal.progress(f"Embedding {images.name}", 1.0, quiet) as advance:
            report = embed_images(
                images,
                encoder,
                out,
                batch=batch,
                threads=threads,
                pooling=pooling,
                revision=revision,
                on_work=lambda done, total: advance(done / max(total, 1), f"{done} of {total}"),
            )
    except KeyboardInterrupt:
        if not quiet:
            terminal.say("What is embedded is kept: the same command goes on from there.")
        raise
    if not quiet:
        for line in describe(report, out):
            terminal.say(line)


def describe(report: Report, out: Path) -> list[str]:
    """Say what became of the images."""
    lines = [
        f"{out}: {report.images} images, {report.width} numbers each "
        f"({report.encoder}, pooling {report.pooling})."
    ]
    if report.finished:
        lines.append("It was there already, of these images and this encoder: nothing was done.")
    else:
        speed = (report.images - min(report.resumed, report.images)) / max(report.seconds, 1e-9)
        kept = f", {report.resumed} files done before" if report.resumed else ""
        lines.append(f"{report.seconds:.0f} s, {speed:.1f} images per second{kept}.")
    if report.others:
        lines.append(f"Files not looked at, as hidden or no images: {report.others}.")
    if report.rotated:
        lines.append(f"Turned upright: {report.rotated}.")
    if report.animated:
        lines.append(f"Of several frames or pages, the first taken: {report.animated}.")
    if report.skipped:
        where = out.with_suffix(".skipped.csv")
        lines.append(f"Skipped: {len(report.skipped)}; all of them are in {where}.")
        lines += [f"  {one}" for one in report.skipped[:SHOWN]]
        lines += ["  ..."] if len(report.skipped) > SHOWN else []
    return lines


def _no_download_bars() -> None:
    try:
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]
    except ImportError:
        return  # embed says what is missing
    disable_progress_bars()
