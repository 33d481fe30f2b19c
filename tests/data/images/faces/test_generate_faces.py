"""The script that fills a folder, with a pipeline that only pretends to draw."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from PIL import Image

from pfedfair.data.images import faces

SCRIPT = Path(__file__).parents[4] / "scripts" / "generate_faces.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("generate_faces", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pipeline:
    """Draws one colour, by its generator; withholds what is called naked."""

    calls = 0

    def __init__(self, fail_at=None):
        self.fail_at = fail_at

    def __call__(self, *, prompt, num_inference_steps, height, width, generator):
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        colour = torch.randint(0, 256, (3,), generator=generator).tolist()
        image = Image.new("RGB", (width, height), tuple(colour))
        return SimpleNamespace(images=[image], nsfw_content_detected=["naked" in prompt])


def arguments(tmp_path, *more):
    return [
        str(tmp_path / "out"),
        f"--pipeline={tmp_path / 'sd-turbo'}",
        "--template=a photo of a {sensitive}, {label}",
        "--labels=smiling,serious",
        "--groups=man,woman",
        "--each=3",
        "--size=16",
        *more,
    ]


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_is_filled_and_gone_on_with_to_the_same_bytes(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "load", lambda path, device: Pipeline())
    assert script.main(arguments(tmp_path)) == 0
    table = pd.read_csv(tmp_path / "out" / "manifest.csv")
    assert list(table) == ["file", "label", "sensitive", "prompt", "seed", "generator"]
    assert table["seed"].tolist() == list(range(12))
    assert set(table["generator"]) == {"sd-turbo"}
    assert table["prompt"][1] == "a photo of a woman, smiling"
    assert table.groupby(["label", "sensitive"]).size().tolist() == [3] * 4
    data = faces.from_folder(tmp_path / "out", "label", "sensitive", pixels=8)
    assert data.label_names == ("serious", "smiling")
    assert len(data) == 12
    (tmp_path / "out" / "pixels-8.npz").unlink()
    whole = everything(tmp_path / "out")

    other = tmp_path / "other"
    monkeypatch.setattr(script, "load", lambda path, device: Pipeline(fail_at=6))
    with pytest.raises(KeyboardInterrupt):
        script.main(arguments(other, f"--pipeline={tmp_path / 'sd-turbo'}"))
    manifest = other / "out" / "manifest.csv"
    assert len(pd.read_csv(manifest)) == 5
    manifest.write_text(manifest.read_text() + "000005.png,smi")  # it was stopped in a line
    (other / "out" / "000002.png").unlink()
    again = Pipeline()
    monkeypatch.setattr(script, "load", lambda path, device: again)
    assert script.main(arguments(other, f"--pipeline={tmp_path / 'sd-turbo'}")) == 0
    assert again.calls == 8
    assert everything(other / "out") == whole


def test_another_plan_in_the_same_folder_is_refused(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "load", lambda path, device: Pipeline())
    script.main(arguments(tmp_path))
    before = everything(tmp_path / "out")
    for change in ("--seed=5", "--name=other", "--labels=angry,sad"):
        assert script.main(arguments(tmp_path, change)) == 2
        assert "take another folder" in capsys.readouterr().err
    assert everything(tmp_path / "out") == before


def test_prompts_of_a_table_and_withheld_images(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "load", lambda path, device: Pipeline())
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("prompt,mood,client\na happy man,happy,a\na naked man,happy,b\n")
    given = [str(tmp_path / "out"), "--pipeline=x", f"--prompts={prompts}", "--each=2"]
    assert script.main([*given, "--size=8"]) == 0
    assert "2 new images of 4 in" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "out" / "manifest.csv")
    assert table["file"].tolist() == ["000000.png", "000002.png"]
    assert table["client"].tolist() == ["a", "a"]
    for text, sentence in [
        ("prompts\nx\n", "needs a column 'prompt'"),
        ("prompt,seed\nx,1\n", "has a column 'seed', which is written here"),
    ]:
        prompts.write_text(text)
        assert script.main(given) == 2
        assert sentence in capsys.readouterr().err


def test_without_diffusers_and_without_a_pipeline(script, tmp_path, monkeypatch, capsys):
    assert script.main(arguments(tmp_path)) == 2
    assert "is no pipeline of diffusers: it has no model_index.json" in capsys.readouterr().err
    (tmp_path / "sd-turbo").mkdir()
    (tmp_path / "sd-turbo" / "model_index.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert script.main(arguments(tmp_path)) == 2
    assert capsys.readouterr().err == (
        "Error: This script needs diffusers: pip install diffusers.\n"
    )
    assert script.main(arguments(tmp_path, "--template={who}")) == 2
    assert "may have {label} and {sensitive}" in capsys.readouterr().err


def test_a_pipeline_is_loaded_from_the_folder_alone(script, tmp_path, monkeypatch):
    (tmp_path / "model_index.json").write_text("{}")
    asked = {}

    class Loaded(Pipeline):
        def to(self, device):
            asked["device"] = device
            return self

        def set_progress_bar_config(self, disable):
            asked["quiet"] = disable

        @classmethod
        def from_pretrained(cls, path, **options):
            asked.update(options, path=path)
            return cls()

    monkeypatch.setitem(sys.modules, "diffusers", SimpleNamespace(DiffusionPipeline=Loaded))
    assert isinstance(script.load(tmp_path, "cpu"), Loaded)
    assert asked == {
        "path": tmp_path,
        "local_files_only": True,
        "use_safetensors": True,
        "device": "cpu",
        "quiet": True,
    }
