"""Checks the model of `--model` before a job starts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pipeline.errors import UsageError, one_line
from transforms.core.features.layouts import Feature, needs_model
from transforms.core.images.embeddings import Embedding, ModelError, is_application


def check_model_flags(flags: argparse.Namespace, features: Sequence[Feature]) -> None:
    """Checks that the model flags fit the features of the layout; opens nothing.

    Raises:
        UsageError: they do not fit.
    """
    if not needs_model(features):
        for name in ("model", "model_weights", "embed_dtype"):
            if getattr(flags, name) is not None:
                raise UsageError(
                    f"--{name} has no effect with --layout {flags.layout}, which has no embedding: "
                    "use --layout embedding"
                )
        return
    if flags.model is None:
        raise UsageError(
            f"--layout {flags.layout} needs --model: a Keras file, a SavedModel folder, or a name "
            "such as EfficientNetB0 with --model_weights FILE"
        )
    if is_application(flags.model):
        if flags.model_weights is None:
            raise UsageError(
                f"--model {flags.model}: no such file; if it is a name of keras.applications, give "
                "--model_weights FILE, since nothing is downloaded"
            )
    elif flags.model_weights is not None:
        raise UsageError(
            f"--model_weights is for a name of keras.applications; the file --model "
            f"{flags.model} has its own weights"
        )


def check_model(flags: argparse.Namespace) -> Embedding | None:
    """Loads the model and tries it; None without `--model`.

    Raises:
        UsageError: it is missing or damaged, or does not return one float array per image.
    """
    if flags.model is None:
        return None
    # This imports Beam's inference, which other runs do not need.
    from transforms.embed_images import ModelFileError, load_embedding

    try:
        return load_embedding(flags.model, flags.model_weights, flags.embed_dtype or "float32")
    except ModelFileError as error:
        said = f"cannot read --{error.option} {error.path}: {one_line(error.cause)}"
        raise UsageError(said) from error
    except ModelError as error:
        raise UsageError(f"--model {flags.model} {error}") from error
