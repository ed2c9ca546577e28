"""The types of functions that show how far some work is; below all layers, as every layer takes such functions."""

from __future__ import annotations

from collections.abc import Callable

ShowProgress = Callable[[int, int], None]
"""Called with the number done and the total."""
ShowStage = Callable[[str], ShowProgress]
"""Called with the name of a stage, such as "features"; returns what shows the progress of this stage."""
