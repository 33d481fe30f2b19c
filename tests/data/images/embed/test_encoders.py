"""Encoders, against transformers' own classes; and everything that can be wrong with a folder."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers as hf
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import load_file, save_file

from made_encoders import BIT, SMALL, TINY, WORDS, save, tiny
from pfedfair._util.errors import InputError
from pfedfair.data.images.embed import encoders

RNG = np.random.default_rng(0)
IMAGES = [Image.fromarray(RNG.integers(0, 256, (50, 40, 3), dtype=np.uint8)) for _ in range(3)]
CLIP = {"image_processor_type": "CLIPImageProcessor", **SMALL}
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}


def numbers(encoder):
    return encoder(np.stack([encoder.preprocessing(image) for image in IMAGES]))


def theirs(model, processor):
    with torch.inference_mode():
        return model(processor(IMAGES, return_tensors="pt")["pixel_values"])


def close(found, expected):
    assert found.shape == expected.shape
    assert np.abs(found - expected.numpy()).max() <= 1e-5 * np.abs(expected.numpy()).max()


def test_dinov2_of_the_real_width(tmp_path):
    config = hf.Dinov2Config(num_hidden_layers=1)
    model = save(hf.Dinov2Model(config), tmp_path, {"image_processor_type": "BitImageProcessor"})
    encoder = encoders.load(str(tmp_path))
    assert (encoder.width, encoder.pooling, encoder.preprocessing.size) == (768, "cls", (224, 224))
    outputs = theirs(model, hf.BitImageProcessorPil())
    close(numbers(encoder), outputs.pooler_output)
    close(numbers(encoder), outputs.last_hidden_state[:, 0])


@pytest.mark.parametrize("whole", [False, True])
def test_clip_of_the_real_width(tmp_path, whole):
    vision = {"num_hidden_layers": 1, "patch_size": 16}
    if whole:
        text = WORDS | {"projection_dim": 512}
        model = hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision))
    else:
        model = hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig(**vision))
    save(model, tmp_path, {"image_processor_type": "CLIPImageProcessor"})
    encoder = encoders.load(str(tmp_path))
    assert (encoder.width, encoder.pooling) == (512, "projection")
    with torch.inference_mode():
        pixels = hf.CLIPImageProcessorPil()(IMAGES, return_tensors="pt")["pixel_values"]
        hidden = model.vision_model(pixels).pooler_output
        close(numbers(encoder), model.visual_projection(hidden))


def test_a_projection_of_another_width(tmp_path):
    vision = TINY | {"patch_size": 8, "intermediate_size": 16}
    config = hf.CLIPConfig(
        text_config=WORDS | {"projection_dim": 24}, vision_config=vision, projection_dim=24
    )
    save(hf.CLIPModel(config), tmp_path, CLIP)
    assert encoders.load(str(tmp_path)).width == 24


def test_clip_without_its_projection(tmp_path):
    config = hf.CLIPVisionConfig(**TINY, patch_size=8, intermediate_size=16)
    model = save(hf.CLIPVisionModel(config), tmp_path, CLIP)
    encoder = encoders.load(str(tmp_path))
    assert (encoder.pooling, encoder.width) == ("pooled", 16)
    close(numbers(encoder), theirs(model, hf.CLIPImageProcessorPil(**SMALL)).pooler_output)
    with pytest.raises(InputError, match="projection' is not possible with CLIPVisionModel"):
        encoders.load(str(tmp_path), pooling="projection")


LAYERS = TINY | {"patch_size": 8, "intermediate_size": 16}
MODELS = {
    "vit": (hf.ViTModel, hf.ViTConfig(**LAYERS), "cls", 1),
    "deit": (hf.DeiTModel, hf.DeiTConfig(**LAYERS), "cls", 2),
    "beit": (hf.BeitModel, hf.BeitConfig(**LAYERS), "cls", 1),
    "registers": (
        hf.Dinov2WithRegistersModel,
        hf.Dinov2WithRegistersConfig(**TINY, patch_size=8, num_register_tokens=3),
        "cls",
        4,
    ),
    "swin": (
        hf.SwinModel,
        hf.SwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
        ),
        "mean",
        0,
    ),
    "resnet": (
        hf.ResNetModel,
        hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
        "pooled",
        0,
    ),
    "convnext": (
        hf.ConvNextModel,
        hf.ConvNextConfig(num_stages=2, hidden_sizes=[8, 16], depths=[1, 1]),
        "pooled",
        0,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_pooling_fits_the_model(tmp_path, name):
    kind, config, pooling, before = MODELS[name]
    torch.manual_seed(1)
    model = save(kind(config), tmp_path, VIT)
    encoder = encoders.load(str(tmp_path))
    assert (encoder.pooling, encoder.first) == (pooling, before)
    outputs = theirs(model, hf.ViTImageProcessorPil(size=VIT["size"]))
    hidden = outputs.last_hidden_state
    if pooling == "cls":
        close(numbers(encoder), hidden[:, 0])
        close(numbers(encoders.load(str(tmp_path), pooling="mean")), hidden[:, before:].mean(1))
    else:
        close(numbers(encoder), outputs.pooler_output.flatten(1))
        with pytest.raises(InputError, match="pooling='cls' is not possible"):
            encoders.load(str(tmp_path), pooling="cls")


def test_siglip_has_a_head_of_its_own(tmp_path):
    vision = hf.SiglipVisionConfig(**LAYERS)
    processor = VIT | {"image_processor_type": "SiglipImageProcessor"}
    model = save(hf.SiglipVisionModel(vision), tmp_path, processor)
    encoder = encoders.load(str(tmp_path))
    assert encoder.pooling == "pooled"
    close(
        numbers(encoder), theirs(model, hf.SiglipImageProcessorPil(size=VIT["size"])).pooler_output
    )


def test_half_weights_are_computed_in_single(tmp_path):
    tiny(tmp_path)
    weights = tmp_path / "model.safetensors"
    halves = {key: value.half() for key, value in load_file(weights).items()}
    save_file(halves, weights, {"format": "pt"})
    assert encoders.load(str(tmp_path)).model.dtype == torch.float32


def test_shards(tmp_path):
    model = tiny(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="5KB")
    shutil.copy(tmp_path / "one" / "preprocessor_config.json", tmp_path / "many")
    one, many = (encoders.load(str(tmp_path / name)) for name in ("one", "many"))
    assert len(many.checkpoint.weights) > 1
    assert np.array_equal(numbers(one), numbers(many))
    many.checkpoint.weights[1].unlink()
    with pytest.raises(InputError, match=r"names model-.*, which is not there"):
        encoders.load(str(tmp_path / "many"))


def edit(name, change):
    def spoil(folder):
        settings = json.loads((folder / name).read_text())
        change(settings)
        (folder / name).write_text(json.dumps(settings))

    return spoil


def weights(change):
    def spoil(folder):
        path = folder / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return spoil


def without(*endings):
    def spoil(folder):
        path = folder / "model.safetensors"
        kept = {key: value for key, value in load_file(path).items() if not key.endswith(endings)}
        save_file(kept, path, {"format": "pt"})

    return spoil


def only_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
SPOILT = {
    "no config": (lambda f: (f / "config.json").unlink(), "has no config.json"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no weights: put the model's"),
    "pickle": (only_pickle, "only pytorch_model.bin.*may run code.*convert it once"),
    "no processor": (lambda f: (f / "preprocessor_config.json").unlink(), "has no preprocessor"),
    "pointer": (weights(lambda all: LFS), "is a Git LFS pointer"),
    "truncated": (
        weights(lambda all: all[:-100]),
        "complete safetensors file: download it again",
    ),
    "cut header": (
        weights(lambda all: all[:50]),
        "complete safetensors file: download it again",
    ),
    "empty": (weights(lambda all: b""), "not a complete safetensors file"),
    "noise": (weights(lambda all: b"\x09" + bytes(7) + all), "not a complete safetensors file"),
    "missing": (
        without("query.weight"),
        "lacks weights of Dinov2Model, which would be random: .*q",
    ),
    "quantised": (edit("config.json", lambda c: c.update(quantization_config={})), "is quantised"),
    "adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), "holds an adapter"),
    "unknown": (edit("config.json", lambda c: c.update(model_type="magic")), "model_type magic"),
    "code": (
        edit("config.json", lambda c: c.update(model_type="m", auto_map={"AutoConfig": "m.C"})),
        "only models that transformers itself has",
    ),
    "grey": (edit("config.json", lambda c: c.update(num_channels=1)), "takes 1 channels"),
    "shapes": (edit("config.json", lambda c: c.update(hidden_size=18)), "do not fit its config"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "config.json cannot be read"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_spoilt_folder_has_its_sentence(tmp_path, case):
    spoil, sentence = SPOILT[case]
    tiny(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=sentence):
        encoders.load(str(tmp_path))


def test_what_is_not_used_may_be_missing(tmp_path):
    torch.manual_seed(0)
    save(hf.ViTModel(hf.ViTConfig(**LAYERS)), tmp_path, VIT)
    before = numbers(encoders.load(str(tmp_path)))
    without("pooler.dense.weight", "pooler.dense.bias")(tmp_path)
    assert np.array_equal(numbers(encoders.load(str(tmp_path))), before)
    with pytest.raises(InputError, match=r"would be random: pooler\.dense"):
        encoders.load(str(tmp_path), pooling="pooled")


def test_a_text_model_is_refused(tmp_path):
    save(hf.BertModel(hf.BertConfig(**WORDS)), tmp_path)
    with pytest.raises(InputError, match="holds a bert model, which is not one for images"):
        encoders.load(str(tmp_path))


def test_a_model_that_masks_at_random_is_refused(tmp_path):
    config = hf.ViTMAEConfig(**LAYERS, decoder_hidden_size=16, decoder_num_hidden_layers=1)
    save(hf.ViTMAEModel(config), tmp_path, VIT)
    with pytest.raises(InputError, match="other numbers for the same image each time"):
        encoders.load(str(tmp_path))


def test_a_processor_for_another_size(tmp_path):
    save(hf.ViTModel(hf.ViTConfig(**LAYERS)), tmp_path, BIT | {"crop_size": 40})
    with pytest.raises(InputError, match="does not take images of 40 x 40"):
        encoders.load(str(tmp_path))


def test_names(tmp_path, monkeypatch):
    for name in ("dinov3", str(tmp_path / "absent"), "../absent", "a/b/c"):
        with pytest.raises(InputError, match="There is no encoder or folder"):
            encoders.load(name)
    with pytest.raises(InputError, match="is a file: name the folder"):
        encoders.load(__file__)
    tiny(tmp_path)
    with pytest.raises(InputError, match="revision is for encoders of the hub"):
        encoders.load(str(tmp_path), revision="main")
    with pytest.raises(InputError, match="Unknown pooling 'max'"):
        encoders.load(str(tmp_path), pooling="max")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["dinov2", "clip", "google/vit-base-patch16-224"])
def test_offline_one_sentence_says_what_to_do(offline, name):
    with pytest.raises(InputError) as raised:
        encoders.load(name)
    message = str(raised.value)
    repository = {"dinov2": "facebook/dinov2-base", "clip": "openai/clip-vit-base-patch16"}
    assert f"https://huggingface.co/{repository.get(name, name)}/tree/main" in message
    for file in ("config.json", "preprocessor_config.json", "model.safetensors"):
        assert file in message
    assert message.endswith("put them into one folder, and say encoder='FOLDER'.")


def test_what_is_cached_needs_no_network(offline):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = offline / "models--facebook--dinov2-base"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    snapshot = repository / "snapshots" / commit
    tiny(snapshot)
    checkpoint = encoders.load("dinov2").checkpoint
    assert (checkpoint.name, checkpoint.revision) == ("dinov2", commit)
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(InputError, match="is not on this machine and cannot be downloaded"):
        encoders.load("dinov2")
