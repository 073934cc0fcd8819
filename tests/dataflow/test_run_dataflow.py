"""What `run_dataflow.sh` makes of variables and flags; `python` is a stub that tells its words."""

import re
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator

from pipeline.options.parser import parse_flags
from tests.dataflow.submitting import ROOT, Submitted, copy_tree, files_of, run
from tests.marks import cases

INPUTS = ["--images=gs://in/**/*.jpg", "--labels", "gs://in/labels.csv", "--output", "gs://out/ds"]
VARIABLES = {"PROJECT": "my-project", "REGION": "europe-west4", "BUCKET": "my-bucket"}
DOCUMENT = ROOT / "docs" / "dataflow.md"
STUB = '#!/bin/sh\nprintf "%s\\0" "$@"\n'


@pytest.fixture
def stub(tmp_path: Path) -> str:
    """An environment of which nothing works but a `python` that prints its words."""
    python = tmp_path / "stub" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STUB)
    python.chmod(0o755)
    return str(python.parents[1])


def run_script(*words: str, **variables: str) -> Submitted:
    """Runs the script from another folder than its own."""
    return run([str(ROOT / "run_dataflow.sh"), *words], variables, Path("/"))


def words_for(stub: str, *words: str, **variables: str) -> list[str]:
    """What the script would run `python` with."""
    ran = run_script(*words, VENV=stub, **variables)
    assert (ran.code, ran.err) == (0, "")
    passed = ran.out.split("\0")[:-1]
    assert passed[:2] == ["-m", "pipeline.convert"]
    return passed[2:]


def options_for(stub: str, *words: str, **variables: str) -> PipelineOptions:
    """What Beam makes of the words, none of which is unknown to us and to Beam."""
    return PipelineOptions(parse_flags("convert", words_for(stub, *words, **variables))[1])


@pytest.mark.parametrize(
    ("missing", "flag"),
    [("PROJECT", "--project"), ("REGION", "--region"), ("BUCKET", "--temp_location")],
)
def test_a_missing_variable_is_named_with_its_flag(missing: str, flag: str) -> None:
    variables = {name: value for name, value in VARIABLES.items() if name != missing}
    for given in (variables, {**variables, missing: ""}):
        ran = run_script(*INPUTS, **given)
        assert ran.code == 2
        assert ran.err == f"run_dataflow.sh: set {missing} or give {flag}\n"


def test_all_that_is_missing_is_one_line_and_nothing_is_installed(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    before = files_of(tree)
    ran = run([str(tree / "run_dataflow.sh")], {}, tree)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert all(name in ran.err for name in [*VARIABLES, "--output"])
    assert files_of(tree) == before


@pytest.mark.parametrize("flag", ["--images", "--labels", "--output"])
def test_a_path_of_this_machine_is_refused(flag: str) -> None:
    ran = run_script(*INPUTS, f"{flag}=some where/a.jpg", **VARIABLES)
    assert ran.code == 2
    assert ran.err == (
        f"run_dataflow.sh: {flag} some where/a.jpg is on this machine, out of the workers' reach: "
        "give a gs:// path\n"
    )


def test_help_needs_no_variables() -> None:
    for flag in ("--help", "-h"):
        ran = run_script(flag)
        assert (ran.code, ran.err) == (0, "")
        assert "PROJECT=my-project" in ran.out and "#" not in ran.out


def test_variables_become_options(stub: str) -> None:
    options = options_for(stub, *INPUTS, **VARIABLES)
    assert options.view_as(StandardOptions).runner == "DataflowRunner"
    cloud = options.view_as(GoogleCloudOptions)
    assert (cloud.project, cloud.region) == ("my-project", "europe-west4")
    assert cloud.temp_location == "gs://my-bucket/tmp"
    assert cloud.staging_location == "gs://my-bucket/staging"
    setup = options.view_as(SetupOptions)
    assert setup.setup_file == str(ROOT / "setup.py")
    assert setup.save_main_session is False
    assert options.view_as(WorkerOptions).sdk_container_image is None


def test_a_bucket_may_be_a_url(stub: str) -> None:
    cloud = options_for(stub, *INPUTS, **{**VARIABLES, "BUCKET": "gs://other/"}).view_as(
        GoogleCloudOptions
    )
    assert cloud.temp_location == "gs://other/tmp"
    assert cloud.staging_location == "gs://other/staging"


def test_flags_do_instead_of_variables(stub: str) -> None:
    flags = ["--project", "mine", "--region=us-east1", "--temp-location", "gs://t/here"]
    cloud = options_for(stub, *INPUTS, *flags).view_as(GoogleCloudOptions)
    assert (cloud.project, cloud.region) == ("mine", "us-east1")
    assert cloud.temp_location == "gs://t/here"
    # Beam takes the temporary location for both.
    assert cloud.staging_location is None


def test_flags_win_over_variables_and_settings(stub: str) -> None:
    flags = {
        "project": "mine",
        "region": "us-east1",
        "temp_location": "gs://t/here",
        "staging_location": "gs://s/here",
        "job_name": "by-hand",
        "setup_file": "/else/setup.py",
        "machine_type": "e2-standard-2",
        "disk_size_gb": "50",
        "max_num_workers": "3",
        "number_of_worker_harness_threads": "1",
        "sdk_container_image": "mine:2",
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    options = options_for(stub, *words, *INPUTS, SDK_IMAGE="theirs:1", **VARIABLES)
    views = (GoogleCloudOptions, SetupOptions, WorkerOptions, DebugOptions)
    made: dict[str, object] = {}
    for view in views:
        made |= options.view_as(view).get_all_options(retain_unknown_options=False)
    assert {name: str(made[name]) for name in flags} == flags


def test_an_image_is_passed(stub: str) -> None:
    image = "europe-docker.pkg.dev/p/r/convert:1"
    options = options_for(stub, *INPUTS, SDK_IMAGE=image, **VARIABLES)
    assert options.view_as(WorkerOptions).sdk_container_image == image
    # The image has the dependencies; the code is that of this tree.
    assert options.view_as(SetupOptions).setup_file == str(ROOT / "setup.py")


def test_quoting_survives(stub: str) -> None:
    odd = "gs://in/a b/$HOME/*[1]'\".jpg"
    words = words_for(stub, "--images", odd, *INPUTS, **VARIABLES)
    assert odd in words


@cases(
    ("gs://out/datasets/Photos_2", "convert-photos-2-"),
    ("gs://out", "convert-out-"),
    ("gs://out/사진", "convert-"),
    (f"gs://out/{'long' * 30}", f"convert-{'long' * 10}-"),
)
def test_a_job_is_named_after_its_output(output: str, name: str, stub: str) -> None:
    def job_name(folder: str) -> str:
        options = options_for(stub, *INPUTS, "--output", folder, **VARIABLES)
        named: str = options.view_as(GoogleCloudOptions).job_name
        return named

    made = job_name(output)
    assert re.fullmatch(rf"{re.escape(name)}\d+", made)
    assert re.fullmatch(PipelineOptionsValidator.JOB_PATTERN, made) and len(made) <= 63
    assert job_name(f"{output}/") == made
    assert job_name(f"{output}x") != made


def test_every_setting_has_its_reason(stub: str) -> None:
    """A row of docs/dataflow.md for each flag that the variables do not explain."""
    rows = re.findall(r"^\| `(--\S+)(?: (\S+))?`.* \| .+ \|$", DOCUMENT.read_text(), re.MULTILINE)
    explained = {flag: value for flag, value in rows}
    from_variables = {"runner", "project", "region", "temp_location", "job_name"}
    words = words_for(stub, *INPUTS, SDK_IMAGE="an:image", **VARIABLES)[: -len(INPUTS)]
    options = [word for word in words if word.startswith("--")]
    settings = {option.split("=")[0] for option in options} - {"--staging_location"}
    assert settings - {f"--{name}" for name in from_variables} == set(explained)
    for flag, value in explained.items():
        if value:
            assert words[words.index(flag) + 1].endswith(value)
