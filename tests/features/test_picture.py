"""Cut-outs: the right part of the picture, upright, mirrored or not, in the size of the view."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fewcap.features.picture import WHOLE, Crop, Picture, Resizer, View

# Red grows from left to right, green from top to bottom.
ROWS, COLUMNS = np.mgrid[0:120, 0:160]
IMAGE = np.stack([COLUMNS * 255 // 159, ROWS * 255 // 119, np.zeros_like(ROWS)], -1).astype(np.uint8)


def spread(array: np.ndarray) -> tuple[float, float, float, float]:
    """Red of the first and last column, green of the first and last row, as shares."""
    x = array.astype(float) / 255
    return x[:, 0, 0].mean(), x[:, -1, 0].mean(), x[0, :, 1].mean(), x[-1, :, 1].mean()


def test_a_cut_out_shows_its_part() -> None:
    crop = Crop(0.25, 0.5, 0.5, 0.4, mirrored=False)
    found = Resizer(View(64, 48), crop).array(Picture.of_array(IMAGE))
    assert found.shape == (48, 64, 3)
    np.testing.assert_allclose(spread(found), (0.25, 0.75, 0.5, 0.9), atol=0.02)


def test_a_mirrored_one_is_turned_round_and_a_lying_picture_stands_up_first() -> None:
    crop = Crop(0.25, 0.5, 0.5, 0.4, mirrored=True)
    lying = Picture(Picture.of_array(np.rot90(IMAGE, -1)).frame, turns=1)
    for picture in (Picture.of_array(IMAGE), lying):
        np.testing.assert_allclose(
            spread(Resizer(View(64, 48), crop).array(picture)), (0.75, 0.25, 0.5, 0.9), atol=0.02
        )


def test_the_whole_picture_is_the_default() -> None:
    plain = Resizer(View(64, 48)).array(Picture.of_array(IMAGE))
    assert np.array_equal(plain, Resizer(View(64, 48), WHOLE).array(Picture.of_array(IMAGE)))
    np.testing.assert_allclose(spread(plain), (0, 1, 0, 1), atol=0.02)


@given(st.text(max_size=20), st.sampled_from([View(32, 32), View(30, 200, keep_shape=True)]))
def test_a_drawn_cut_out_lies_inside_and_follows_from_its_name(name: str, view: View) -> None:
    crop = Crop.drawn(name)
    assert crop == Crop.drawn(name)
    assert min(crop.left, crop.top) >= 0
    assert max(crop.left + crop.width, crop.top + crop.height) <= 1 + 1e-9
    assert 0.4 < crop.width * crop.height <= 1
    array = Resizer(view, crop).array(Picture.of_array(IMAGE))
    assert array.shape[:2] == (32, 32) if not view.keep_shape else min(array.shape[:2]) == 30
    red = spread(array)[:2]
    expected = (crop.left, crop.left + crop.width)
    np.testing.assert_allclose(red[::-1] if crop.mirrored else red, expected, atol=0.05)
