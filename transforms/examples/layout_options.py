"""The options of the layout: features, boxes and embeddings."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transforms.core.option import (
    ALIKE,
    NOT_RECORDED,
    Group,
    Parameter,
    as_it_is,
    declared,
    option,
    vars_of,
)
from transforms.examples.boxes import FORMS, ORIENTATIONS, UNITS, parse_box_columns
from transforms.examples.layouts import LAYOUTS, ROWS, Feature, is_layout_file, needs_model
from transforms.images.pixel_options import EMBED_DTYPES, is_application

if TYPE_CHECKING:
    from transforms.images.embeddings import Embedding

LAYOUT_NAMES = (*LAYOUTS, ROWS)

_LAYOUT = f"^({'|'.join(LAYOUT_NAMES)}|gs://[a-z0-9._-]+/.+[.]ya?ml)$"


def layout_name(text: str) -> str:
    """The name of a layout, or the path of a layout file.

    Raises:
        ValueError: it is neither.
    """
    if text not in LAYOUT_NAMES and not is_layout_file(text):
        near = difflib.get_close_matches(text.lower(), LAYOUT_NAMES, n=1, cutoff=ALIKE)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"{text!r} is neither one of {', '.join(LAYOUT_NAMES)} nor a .yaml file{hint}"
        )
    return text


@dataclasses.dataclass(frozen=True)
class LayoutOptions(Group, title="output", of_images=True, recorded=as_it_is):
    """The features of the Examples, and the columns of boxes."""

    layout: str = option(
        "slim",
        metavar="NAME|FILE",
        parse=layout_name,
        help=f"features of the Examples: {', '.join(LAYOUT_NAMES)}, or your own .yaml file",
        is_path=True,
        parameter=Parameter("Features", _LAYOUT),
        of_images=False,
    )
    box_columns: tuple[str, ...] | None = option(
        metavar="COL,COL,COL,COL",
        parse=parse_box_columns,
        help="columns of boxes, names or numbers; if omitted, found by their headers",
        parameter=Parameter("Columns of boxes", "^[^,]+,[^,]+,[^,]+,[^,]+$"),
        python="Several",
    )
    box_form: str | None = option(
        choices=tuple(FORMS),
        help="what the columns hold: two corners, x,y,w,h (COCO), or center and size (YOLO)",
        parameter=Parameter("Form of boxes"),
    )
    box_units: str | None = option(
        choices=UNITS,
        help="box coordinate units; inferred from the first rows if omitted",
        parameter=Parameter("Units of boxes"),
    )
    box_orientation: str | None = option(
        choices=ORIENTATIONS,
        help="whether boxes refer to the stored pixels, or to the image after EXIF rotation",
        parameter=Parameter("Orientation of boxes"),
    )


@dataclasses.dataclass(frozen=True)
class EmbeddingOptions(Group, title="embeddings", of_images=True, recorded=as_it_is):
    """The model of a layout with embeddings."""

    model: str | None = option(
        metavar="MODEL",
        help="Keras file, SavedModel folder or keras.applications name, for --layout embedding",
        is_path=True,
        parameter=Parameter("Model", "^(gs://[a-z0-9._-]+/.+|[A-Za-z][A-Za-z0-9_]*)$"),
    )
    model_weights: str | None = option(
        metavar="FILE",
        help="weights for a keras.applications name",
        is_path=True,
        parameter=Parameter("Weights of the model"),
    )
    embed_dtype: str | None = option(
        choices=EMBED_DTYPES,
        help="type of the embeddings; bfloat16 takes half the size; if omitted: float32",
        parameter=Parameter("Type of embeddings"),
    )

    def check(self, layout: str, features: Sequence[Feature]) -> None:
        """Checks that the model fits the features of a layout; opens nothing.

        Raises:
            ValueError: it does not fit; the message names its flag.
        """
        if not needs_model(features):
            if given := [name for name, value in vars_of(self).items() if value is not None]:
                raise ValueError(
                    f"--{given[0]} has no effect with --layout {layout}, which has no embedding: "
                    "use --layout embedding"
                )
        elif self.model is None:
            raise ValueError(
                f"--layout {layout} needs --model: a Keras file, a SavedModel folder, or a name "
                "such as EfficientNetB0 with --model_weights FILE"
            )
        elif is_application(self.model) and self.model_weights is None:
            raise ValueError(
                f"--model {self.model}: no such file; if it is a name of keras.applications, give "
                "--model_weights FILE, since nothing is downloaded"
            )
        elif not is_application(self.model) and self.model_weights is not None:
            raise ValueError(
                f"--model_weights is for a name of keras.applications; the file --model "
                f"{self.model} has its own weights"
            )


def embedding_options(embedding: Embedding | None) -> dict[str, Any]:
    """What is recorded of an embedding: the content of files, whose location affects no byte."""
    if embedding is None:
        return dict.fromkeys(declared(EmbeddingOptions), NOT_RECORDED)
    model, weights = embedding.digests
    return {
        "model": model or embedding.model,
        "model_weights": weights or None,
        "embed_dtype": embedding.dtype,
    }
