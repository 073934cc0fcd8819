"""The image as far as it can be checked without building it: versions, files, the last checks."""

import ast
import re
from pathlib import Path

import apache_beam
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """Instructions and their arguments, lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def arguments(instruction: str) -> list[str]:
    """The arguments of each instruction of a kind."""
    return [words for name, words in instructions() if name == instruction]


def requirements() -> dict[str, Requirement]:
    """What the project needs, by name."""
    assignments = [
        node
        for node in ast.parse((ROOT / "setup.py").read_text()).body
        # Workers decode HEIC, too.
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) in ("INSTALL_REQUIRES", "HEIC_REQUIRES")
    ]
    assert len(assignments) == 2
    listed = (text for each in assignments for text in ast.literal_eval(each.value))
    needed = [Requirement(each) for each in listed]
    return {canonicalize_name(each.name): each for each in needed}


def pins() -> dict[str, str]:
    """Version of each package of the image."""
    lines = (DEPLOY / "requirements.txt").read_text("utf-8").splitlines()
    pinned = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pinned}


def bases() -> dict[str, str]:
    """The images that this one is made of, with their tags."""
    images = [words.split()[0] for words in arguments("FROM")]
    return {image.rpartition(":")[0]: image.rpartition(":")[2] for image in images}


def test_every_base_has_a_version() -> None:
    assert len(bases()) == 3
    for image, tag in bases().items():
        assert re.search(r"\d", tag), image


def test_versions_are_those_of_setup_and_of_the_tests() -> None:
    assert bases()["apache/beam_python3.11_sdk"] == pins()["apache-beam"] == apache_beam.__version__
    for name, needed in requirements().items():
        assert needed.specifier.contains(pins()[name]), f"{name} {pins()[name]}"


def test_all_bases_have_the_same_python() -> None:
    assert bases()["python"].startswith("3.11.")
    assert all("3.11" in image or "311" in image for image in bases() if image != "python")


def test_every_file_that_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        source
        for words in arguments("COPY")
        if not words.startswith("--from")
        for source in words.split()[:-1]
    }
    assert copied == allowed
    for source in copied:
        assert (ROOT / source).exists(), source


def test_the_image_has_what_setup_packages() -> None:
    copied = " ".join(arguments("COPY"))
    for package in ("image_tfrecords", "pipeline", "transforms"):
        assert f"{package} /template/source/{package}" in copied


def test_copies_from_stages_that_exist() -> None:
    stages = {words.split(" AS ")[1] for words in arguments("FROM") if " AS " in words}
    assert set(re.findall(r"--from=(\w+)", " ".join(arguments("COPY")))) == stages


def test_ends_with_a_check_and_boots_as_a_worker() -> None:
    names = [name for name, _ in instructions()]
    assert arguments("RUN")[-1].endswith("pip check")
    assert names[-1] == "ENTRYPOINT"
    assert arguments("ENTRYPOINT") == ['["/opt/apache/beam/boot"]']
    assert not {"ADD", "MAINTAINER"} & set(names)


def test_the_launched_file_is_in_the_image() -> None:
    launched = dict(words.split("=") for words in arguments("ENV") if words.count("=") == 1)
    assert launched["FLEX_TEMPLATE_PYTHON_PY_FILE"] == "/template/flex_main.py"
    assert "deploy/flex_main.py /template/" in arguments("COPY")
