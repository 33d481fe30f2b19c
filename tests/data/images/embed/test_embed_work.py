"""A whole folder: rows, bad images, stops, and files that are there already."""

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
import torch
import transformers as hf
from filelock import FileLock
from PIL import Image
from safetensors.torch import load_file, save_file

from made_encoders import BIT, SMALL, TINY, pictures, save, tiny
from pfedfair._util.errors import InputError
from pfedfair.data.images.embed import embed, open_image, read_embeddings, work, write


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders") / "tiny-dino"
    tiny(folder)
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    return pictures(tmp_path / "images", 10)


def test_rows_are_what_transformers_gives(encoder, folder, tmp_path):
    seen = []
    report = embed(
        folder,
        encoder,
        tmp_path / "e.parquet",
        batch=4,
        threads=2,
        on_work=lambda done, total: seen.append((done, total)),
    )
    frame, array, meta = read_embeddings(tmp_path / "e.parquet")
    model, processor = hf.Dinov2Model.from_pretrained(encoder), hf.BitImageProcessorPil(**SMALL)
    images = [open_image(folder / name) for name in frame["file"]]
    with torch.inference_mode():
        pixels = processor(images, return_tensors="pt")["pixel_values"]
        expected = model.eval()(pixels).pooler_output.numpy()
    assert np.abs(array - expected).max() < 2e-3
    assert frame["file"].tolist() == [f"{number:03}.png" for number in range(10)]
    assert array.dtype == np.float16
    assert (report.images, report.width, report.skipped, report.resumed) == (10, 16, (), 0)
    assert seen == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert (meta["encoder"], meta["revision"], meta["pooling"]) == ("tiny-dino", None, "cls")
    assert (meta["width"], meta["images"], meta["format"]) == (16, 10, 1)
    assert not list(tmp_path.glob(".*"))


def test_the_same_bytes_each_time_and_however_it_is_cut(encoder, folder, tmp_path, monkeypatch):
    made = []
    for number, least in enumerate((64, 64, 4, 8)):
        monkeypatch.setattr(work, "AT_LEAST", least)
        monkeypatch.setattr(write, "ROWS", 3)
        out = tmp_path / f"{number}.parquet"
        embed(folder, encoder, out, batch=4, threads=1)
        made.append(out.read_bytes())
    assert len(set(made)) == 1


def test_bad_images_are_named_and_counted(encoder, folder, tmp_path):
    (folder / "empty.jpg").touch()
    (folder / "text\x1b[2J.png").write_text("no image")
    (folder / "cut.png").write_bytes((folder / "000.png").read_bytes()[:200])
    Image.new("RGB", (9_000, 8_000)).save(folder / "huge.png")
    (folder / "out.png").symlink_to("/etc/hostname")
    (folder / "notes.txt").touch()
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "moves.gif", save_all=True, append_images=frames[1:])
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (9, 5)).save(folder / "turned.jpg", exif=exif)
    report = embed(folder, encoder, tmp_path / "e.parquet", threads=2)
    reasons = dict(line.rsplit(": ", 1) for line in report.skipped)
    assert reasons == {
        "empty.jpg": "an empty file",
        "text\\x1b[2J.png": "not an image that is read here (JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM)",
        "cut.png": reasons["cut.png"],
        "huge.png": "9000 x 8000 are more than 64,000,000 pixels",
        "out.png": "a link out of the folder",
    }
    assert (report.images, report.others, report.animated, report.rotated) == (12, 1, 1, 1)
    _, array, meta = read_embeddings(tmp_path / "e.parquet")
    assert len(array) == 12
    assert meta["skipped"]["count"] == 5
    assert len(meta["skipped"]["first"]) == 5
    with (tmp_path / "e.skipped.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["file", "reason"]
    assert len(rows) == 6
    again = embed(folder, encoder, tmp_path / "e.parquet", threads=2)
    assert again.finished
    assert again.skipped == report.skipped


def test_a_batch_without_good_images(encoder, folder, tmp_path):
    for name in ("000.png", "001.png", "002.png", "003.png"):
        (folder / name).write_text("spoilt")
    report = embed(folder, encoder, tmp_path / "e.parquet", batch=2, threads=1)
    assert (report.images, len(report.skipped)) == (6, 4)


def test_no_good_image_at_all(encoder, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").touch()
    with pytest.raises(InputError, match=r"None of 1 images can be used.*a\.jpg: an empty file"):
        embed(tmp_path / "images", encoder, tmp_path / "e.parquet")
    assert not (tmp_path / "e.parquet").exists()


def test_a_finished_file_is_not_redone_and_not_overwritten(encoder, folder, tmp_path):
    out = tmp_path / "e.parquet"
    embed(folder, encoder, out)
    before = out.read_bytes()
    assert embed(folder, encoder, out).finished
    tiny(tmp_path / "other", seed=1)
    refused = {
        "another encoder": lambda: embed(folder, str(tmp_path / "other"), out),
        "another pooling": lambda: embed(folder, encoder, out, pooling="mean"),
        "other images": lambda: embed(folder, encoder, out, files=["000.png"]),
    }
    for what, call in refused.items():
        with pytest.raises(InputError, match=f"exists and is of {what}: choose another out"):
            call()
    os.utime(folder / "003.png")  # later, but the same
    assert embed(folder, encoder, out).finished
    content = bytearray((folder / "003.png").read_bytes())
    content[-1] ^= 1
    (folder / "003.png").write_bytes(content)
    with pytest.raises(InputError, match="images that were changed since"):
        embed(folder, encoder, out)
    assert out.read_bytes() == before
    out.write_bytes(b"mine")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        embed(folder, encoder, out)


class Stop(Exception):  # noqa: N818
    pass


def stopped(folder, encoder, out, after):
    def stop(done, total):
        if done >= after:
            raise Stop

    with pytest.raises(Stop):
        embed(folder, encoder, out, batch=2, threads=1, on_work=stop)


def test_a_stopped_call_goes_on(encoder, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "AT_LEAST", 2)
    (folder / "001.png").write_text("spoilt")
    embed(folder, encoder, tmp_path / "whole.parquet", batch=2, threads=1)
    out = tmp_path / "e.parquet"
    stopped(folder, encoder, out, 7)
    assert not out.exists()
    report = embed(folder, encoder, out, batch=2, threads=1)
    assert report.resumed == 6
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert len(report.skipped) == 1


def test_unfinished_work_on_something_else_is_refused(encoder, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "AT_LEAST", 2)
    out = tmp_path / "e.parquet"
    stopped(folder, encoder, out, 7)
    with pytest.raises(InputError, match="unfinished work on another pooling: choose another"):
        embed(folder, encoder, out, pooling="mean")
    os.utime(folder / "003.png", ns=(1, 1))
    with pytest.raises(InputError, match="unfinished work on images that were changed since"):
        embed(folder, encoder, out)


def test_a_damaged_part_is_made_again(encoder, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "AT_LEAST", 2)
    embed(folder, encoder, tmp_path / "whole.parquet", batch=2, threads=1)
    out = tmp_path / "e.parquet"
    stopped(folder, encoder, out, 7)
    part = sorted(write.parts_folder(out).glob("0*.parquet"))[1]
    part.write_bytes(part.read_bytes()[:100])
    assert embed(folder, encoder, out, batch=2, threads=1).resumed == 2
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_images_that_change_meanwhile_are_noticed(encoder, folder, tmp_path):
    def change(done, total):
        (folder / "000.png").write_bytes(b"changed")

    with pytest.raises(InputError, match="changed while they were embedded"):
        embed(folder, encoder, tmp_path / "e.parquet", on_work=change)
    assert not (tmp_path / "e.parquet").exists()


def test_two_processes_do_not_write_one_file(encoder, folder, tmp_path):
    out = tmp_path / "e.parquet"
    write.parts_folder(out).mkdir()
    with (
        FileLock(write.parts_folder(out) / "lock"),
        pytest.raises(InputError, match="Another process is writing"),
    ):
        embed(folder, encoder, out)


def test_kill_9_and_the_same_bytes(encoder, folder, tmp_path):
    out = tmp_path / "e.parquet"
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from pfedfair.data.images.embed import embed, work
        work.AT_LEAST = 2
        def slowly(done, total):
            time.sleep(0.3)
        embed(Path({str(folder)!r}), {encoder!r}, Path({str(out)!r}), batch=2, threads=1,
              on_work=slowly)
    """)
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", script])
    parts, until = write.parts_folder(out), time.monotonic() + 60
    while len(list(parts.glob("0*.parquet"))) < 2 and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    report = embed(folder, encoder, out, batch=2, threads=1)
    assert 0 < report.resumed < 10
    embed(folder, encoder, tmp_path / "whole.parquet", batch=2, threads=1)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not parts.exists()


@pytest.mark.parametrize("value", [1e6, float("nan"), float("inf")])
def test_numbers_that_float16_cannot_hold_are_refused(folder, tmp_path, value):
    tiny(tmp_path / "wild")
    weights = tmp_path / "wild" / "model.safetensors"
    changed = load_file(weights)
    changed["layernorm.bias"][3] = value
    save_file(changed, weights, {"format": "pt"})
    with pytest.raises(InputError, match=r"The encoder gives 000\.png numbers that are not finite"):
        embed(folder, str(tmp_path / "wild"), tmp_path / "e.parquet")


def test_settings_are_checked(encoder, folder, tmp_path):
    for options, sentence in (
        ({"batch": 0}, "batch must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
    ):
        with pytest.raises(InputError, match=sentence):
            embed(folder, encoder, tmp_path / "e.parquet", **options)
    with pytest.raises(InputError, match=r"ends in \.parquet, got .*e\.csv"):
        embed(folder, encoder, tmp_path / "e.csv")
    (tmp_path / "d.parquet").mkdir()
    with pytest.raises(InputError, match="is a folder: choose another out"):
        embed(folder, encoder, tmp_path / "d.parquet")


def test_threads_are_given_back(encoder, folder, tmp_path):
    before = torch.get_num_threads()
    embed(folder, encoder, tmp_path / "e.parquet", threads=before + 1)
    assert torch.get_num_threads() == before


def test_few_images_are_waiting(encoder, tmp_path, monkeypatch):
    """Decoded images are never more than those ahead and in a batch."""
    alive = most = 0
    real = work.read_picture

    def counted(path):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        return real(path)

    def on_work(done, total):
        nonlocal alive
        alive -= 4 if done else 0

    monkeypatch.setattr(work, "read_picture", counted)
    folder = pictures(tmp_path / "images", 60)
    embed(folder, encoder, tmp_path / "e.parquet", batch=4, threads=2, on_work=on_work)
    assert most <= 3 * 4


def test_nothing_heavy_is_loaded_before_it_is_needed():
    code = (
        "import sys, pfedfair, pfedfair.cli\n"
        "assert not {'transformers', 'huggingface_hub', 'filelock'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_metadata_does_not_know_this_machine(encoder, folder, tmp_path):
    embed(folder, encoder, tmp_path / "e.parquet")
    _, _, meta = read_embeddings(tmp_path / "e.parquet")
    assert str(tmp_path) not in json.dumps(meta)


def test_pillows_warnings_are_not_shown(encoder, folder, tmp_path):
    Image.new("RGB", (64, 64)).save(folder / "a.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert embed(folder, encoder, tmp_path / "e.parquet").images == 11


def test_images_of_one_channel_models_are_not_asked_for(tmp_path, folder):
    config = hf.ViTConfig(**TINY, patch_size=8, intermediate_size=16, num_channels=1)
    save(hf.ViTModel(config), tmp_path / "grey", BIT)
    with pytest.raises(InputError, match="takes 1 channels"):
        embed(folder, str(tmp_path / "grey"), tmp_path / "e.parquet")
