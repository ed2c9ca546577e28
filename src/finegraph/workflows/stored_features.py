"""Where the features of a model's photos are stored."""

from __future__ import annotations

import os
from typing import Literal

from finegraph.model.folder.find_model import MODEL_OF_RUN, find_model
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings


def stored_features(model: str | os.PathLike[str]) -> str | Literal[False] | None:
    """The folder of stored features, None for that of the user, False for none.

    Only the features of a network that was not trained itself are ever wanted again, by the next run or evaluation.
    """
    path = find_model(model)
    folder = RunFolder(path.absolute().parent)
    if path.name != MODEL_OF_RUN or not folder.config_file.is_file():
        return False
    settings = TrainSettings.from_dict(folder.read_config(), str(folder.config_file))
    return settings.cache if settings.tune == "head" else False
