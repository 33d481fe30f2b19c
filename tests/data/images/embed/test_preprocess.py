"""Preprocessing: what is described is what is done, by hand with Pillow and NumPy."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pfedfair._util.errors import InputError
from pfedfair.data.images.embed.pictures import BadImage
from pfedfair.data.images.embed.preprocess import KINDS, read_preprocessing

PUBLISHED_CLIP = {
    "feature_extractor_type": "CLIPFeatureExtractor", "crop_size": 224, "size": 224, "resample": 3,
    "do_center_crop": True, "do_normalize": True, "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}  # fmt: skip
PUBLISHED_DINOV2 = {
    "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}, "resample": 3,
    "crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_convert_rgb": True,
    "do_normalize": True, "do_rescale": True, "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
    "rescale_factor": 0.00392156862745098,
}  # fmt: skip


def read(folder, settings):
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return read_preprocessing(folder)


def by_hand(steps, image):
    """Resize, crop the middle (what is missing is black), scale and shift."""
    width, height = image.size
    if steps.exact is not None:
        height, width = steps.exact
    elif steps.shortest is not None:
        short = min(width, height)
        width, height = (int(steps.shortest * side / short) for side in (width, height))
    pixels = np.asarray(image.resize((width, height), steps.resample)) / 1.0
    if steps.crop is not None:
        pixels = middle(middle(pixels, steps.crop[0]).swapaxes(0, 1), steps.crop[1]).swapaxes(0, 1)
    pixels = pixels * (1 if steps.rescale is None else steps.rescale)
    if steps.mean is not None:
        pixels = (pixels - steps.mean) / steps.std
    return pixels.transpose(2, 0, 1)


def middle(pixels, wanted):
    """So many lines in the middle of an image."""
    has = len(pixels)
    if has < wanted:
        before = (wanted - has + 1) // 2
        return np.pad(pixels, [(before, wanted - has - before), (0, 0), (0, 0)])
    first = (has - wanted) // 2
    return pixels[first : first + wanted]


def compare(preprocessing, width, height, seed=0):
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
    expected, found = by_hand(preprocessing.steps, image), preprocessing(image)
    assert found.dtype == np.float32
    assert found.shape == expected.shape == (3, *preprocessing.size)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"size": 60, "do_normalize": False}])
def test_every_kind_by_its_defaults(tmp_path, kind, settings):
    if kind == "Siglip" and settings:
        settings = {"size": {"height": 50, "width": 30}, "resample": 1}
    ours = read(tmp_path, {"image_processor_type": f"{kind}ImageProcessor", **settings})
    for size in ((178, 218), (30, 20), (301, 299)):
        compare(ours, *size)


@pytest.mark.parametrize("name", ["BitImageProcessorFast", "BitImageProcessorPil"])
def test_published_files(tmp_path, name):
    compare(read(tmp_path, PUBLISHED_CLIP), 500, 333)
    settings = PUBLISHED_DINOV2 | {"image_processor_type": name}
    compare(read(tmp_path, settings), 178, 218)


@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    short=st.integers(8, 60),
    crop=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    resample=st.sampled_from(range(6)),
    resize=st.booleans(),
    rescale=st.booleans(),
    square=st.booleans(),
)
def test_any_setting(
    tmp_path_factory, width, height, short, crop, resample, resize, rescale, square
):
    size = {"height": short, "width": short + 3} if square else {"shortest_edge": short}
    settings = {
        "size": size,
        "crop_size": dict(zip(("height", "width"), crop, strict=True)),
        "resample": resample,
        "do_resize": resize,
        "do_rescale": rescale,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.5, 0.25, 2.0],
    }
    config = {"image_processor_type": "BitImageProcessor", **settings}
    ours = read(tmp_path_factory.mktemp("it"), config)
    compare(ours, width, height, short)


def test_a_processor_file_of_a_whole_model(tmp_path):
    whole = {"processor_class": "CLIPProcessor", "image_processor": PUBLISHED_CLIP}
    (tmp_path / "processor_config.json").write_text(json.dumps(whole))
    compare(read_preprocessing(tmp_path), 50, 60)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"crop_pct": 0.9}, "not known here: crop_pct = 0.9"),
        ({"do_pad": True}, "not known here: do_pad = True"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order"),
        ({"auto_map": {"AutoImageProcessor": "mine.py"}}, "auto_map"),
        ({"image_processor_type": "Sam3ImageProcessor"}, "asks for Sam3ImageProcessor: known are"),
        ({"image_processor_type": None}, "asks for no image processor"),
        ({"size": {"longest_edge": 9}}, "a size of longest_edge is not known here"),
        ({"size": {"shortest_edge": 100_000}}, "is not a size in pixels"),
        ({"size": "large"}, "cannot be used"),
        ({"do_center_crop": False}, "images would differ in size"),
        ({"resample": 9}, "resample = 9 is no filter"),
        ({"image_std": [1, 0, 1]}, "image_std must be above zero"),
        ({"image_mean": [1, 2]}, "cannot be used"),
        ({"image_processor_type": "ViTImageProcessor", "crop_size": None}, "without a crop_size"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, PUBLISHED_DINOV2 | changes)


def test_no_file_and_no_table(tmp_path):
    with pytest.raises(InputError, match="has no preprocessor_config"):
        read_preprocessing(tmp_path)
    with pytest.raises(InputError, match="not a table of settings"):
        read(tmp_path, [1])
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        read_preprocessing(tmp_path)


def test_a_long_thin_image_does_not_take_all_memory(tmp_path):
    ours = read(tmp_path, PUBLISHED_DINOV2)
    with pytest.raises(BadImage, match="too long and thin"):
        ours(Image.new("RGB", (60_000_0, 1)))
