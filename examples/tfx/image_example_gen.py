"""A TFX component that makes Examples of images and labels; see docs/readers.md."""

# Without postponed annotations: TFX reads those of the component.

import json

from split_folders import convert_to_splits
from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types.standard_artifacts import Examples


@component
def ImageExampleGen(
    examples: OutputArtifact[Examples],
    images: Parameter[str],
    options: Parameter[str] = "{}",
    program: Parameter[str] = "image-tfrecords",
) -> None:
    """Converts the images that a glob matches.

    Args:
        examples: the artifact; each split is a folder of compressed TFRecord files.
        images: the glob.
        options: further options of `image-tfrecords convert`, a JSON object by their names.
        program: the command that runs it, in this environment or in another.
    """
    flags = {"splits": "train=0.8,eval=0.2", **json.loads(options), "images": images}
    examples.split_names = json.dumps(convert_to_splits(examples.uri, program, flags))
