"""The bars of transformers are off while a model loads, and as they were afterwards."""

from __future__ import annotations

import pytest
from transformers.utils import logging

from fewcap.core.loading import without_bars


@pytest.mark.parametrize("enabled", [True, False])
def test_bars_come_back_even_after_an_error(enabled: bool) -> None:
    before = logging.is_progress_bar_enabled()
    try:
        (logging.enable_progress_bar if enabled else logging.disable_progress_bar)()
        with pytest.raises(OSError, match="no such model"), without_bars():
            assert not logging.is_progress_bar_enabled()
            raise OSError("no such model")
        assert logging.is_progress_bar_enabled() is enabled
    finally:
        (logging.enable_progress_bar if before else logging.disable_progress_bar)()
