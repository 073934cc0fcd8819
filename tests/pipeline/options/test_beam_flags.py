"""Options of Beam, and those of ours that look like them."""

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    _BeamArgumentParser,
)
from apache_beam.runners.runner import _RUNNER_MAP

from pipeline.errors import UsageError
from pipeline.options.beam_flags import RUNNERS, check_beam_flags, underscored
from pipeline.options.parser import parse_flags
from tests.marks import cases
from tests.pipeline.commands import check_ended, convert, plan, snapshot, verify
from tests.pipeline.right_command import right_flags

# Every option of Beam is decided: it passes, or it is refused with what was meant.

NEEDED = ["--images=i", "--output=o"]

REFUSED = {
    "--dry_run": "`plan`",
    "--on_success_matcher": "tests of Beam",
    "--pubsub_root_url": "tests of Beam",
    "--wait_until_finish_duration": "timeout SECONDS",
    "--direct_runner_bundle_repeat": "tests of Beam",
    "--direct_test_splits": "tests of Beam",
    "--streaming": "batch job",
    "--update": "--overwrite replaces a dataset",
    "--transform_name_mapping": "batch job",
    "--create_from_snapshot": "batch job",
    "--no_wait_until_finish": "waits for its job",
    "--output_executable_path": "--output DIR",
}
"""Options that do something else than they say here, and a part of the message."""

NEEDS_RUNNER = (
    "--num_workers --max_num_workers --worker_machine_type --machine_type --flink_master "
    "--spark_master_url --job_endpoint --parallelism --max_parallelism"
).split()
"""Options that this machine's own runner ignores: without --runner someone meant another one."""

JOB_LABELS = ["--label"]
"""Reads like --labels; only KEY=VALUE is a label of the job."""

OURS = ["--labels"]

PASSES = """
    --runner --resource_hint --resource_hints --auto_unique_labels --update_compatibility_version
    --beam_services --use_transform_service --type_check_strictness --type_check_additional
    --no_pipeline_type_check --disable_beartype --exclude_infer_dataclass_field_type
    --runtime_type_check --performance_runtime_type_check --allow_non_deterministic_key_coders
    --allow_unsafe_triggers --force_cloudpickle_deterministic_coders
    --no_direct_runner_use_stacked_bundle --direct_num_workers --direct_running_mode
    --direct_embed_docker_python --dataflow_endpoint --project --job_name --staging_location
    --temp_location --region --service_account_email --no_auth --template_location
    --enable_streaming_engine --dataflow_kms_key --flexrs_goal --dataflow_service_option
    --dataflow_service_options --enable_hot_key_logging --enable_artifact_caching
    --impersonate_service_account --gcp_oauth_scope --gcp_oauth_scopes
    --enable_bucket_read_metric_counter --enable_bucket_write_metric_counter
    --no_gcsio_throttling_counter --enable_gcsio_blob_generation --gcs_custom_audit_entry
    --gcs_custom_audit_entries --azure_connection_string --blob_service_endpoint
    --azure_managed_identity_client_id --hdfs_host --hdfs_port --hdfs_user --hdfs_full_urls
    --autoscaling_algorithm --disk_size_gb --worker_disk_type --disk_type --disk_provisioned_iops
    --disk_provisioned_throughput_mibps --worker_region --worker_zone --zone --network --subnetwork
    --worker_harness_container_image --sdk_container_image --sdk_harness_container_image_overrides
    --default_sdk_harness_log_level --sdk_harness_log_level_overrides --use_public_ips
    --no_use_public_ips --min_cpu_platform --max_cache_memory_usage_mb
    --element_processing_timeout_minutes --dataflow_job_file --experiment --experiments
    --number_of_worker_harness_threads --profile_cpu --profile_memory --profile_location
    --profile_sample_rate --profiler_agent --profiler_extra_arg --profiler_extra_args
    --profiler_extra_env_var --profiler_extra_env_vars --profile_temp_location
    --profile_upload_interval_sec --profiler_stop_after_sec --profiler_stop_after_crash
    --profile_postprocess_interval_sec --requirements_file --requirements_cache
    --requirements_cache_only_sources --setup_file --beam_plugin --beam_plugins --pickle_library
    --save_main_session --no_save_main_session --sdk_location --extra_package --extra_packages
    --file_to_stage --files_to_stage --prebuild_sdk_container_engine
    --prebuild_sdk_container_base_image --cloud_build_machine_type --docker_registry_push_url --gbek
    --user_agent --maven_repository_url --artifact_endpoint --job_server_timeout
    --job-server-timeout --environment_type --environment_config --environment_option
    --environment_options --sdk_worker_parallelism --environment_cache_millis --artifacts_dir
    --job_port --artifact_port --expansion_port --job_server_java_launcher
    --job_server_jvm_properties --job_server_jvm_property --jar_cache_dir --flink_version
    --flink_job_server_jar --flink_submit_uber_jar --bootstrap_servers --application_id
    --kafka_streams_job_server_jar --spark_job_server_jar --spark_submit_uber_jar --spark_rest_url
    --spark_version --prism_location --prism_beam_version_override --prism_log_level
    --prism_log_kind --s3_access_key_id --s3_secret_access_key --s3_session_token --s3_endpoint_url
    --s3_region_name --s3_api_version --s3_verify --s3_disable_ssl
""".split()
"""Options that say how and where the job runs, and change no record."""


def actions(options: type[PipelineOptions] = PipelineOptions) -> Iterator[argparse.Action]:
    """What every class of options of Beam, down to the last one, adds to a command line."""
    for each in options.__subclasses__():
        if each.__module__.startswith("apache_beam.") and "_add_argparse_args" in vars(each):
            parser = _BeamArgumentParser(add_help=False)
            each._add_argparse_args(parser)
            yield from parser._actions
        yield from actions(each)


@functools.cache
def by_flag() -> dict[str, argparse.Action]:
    """The first that has a flag."""
    found: dict[str, argparse.Action] = {}
    for each in actions():
        for flag in each.option_strings:
            found.setdefault(flag, each)
    return found


def words(flag: str) -> list[str]:
    """The flag with a value that it takes, if it takes one."""
    action = by_flag()[flag]
    if action.choices:
        return [f"{flag}={next(iter(action.choices))}"]
    if flag == "--runner":
        return [f"{flag}={RUNNERS[1]}"]
    if "audit" in flag:
        return [f'{flag}={{"team": "vision"}}']
    value = {int: "1", float: "0.5"}.get(action.type, "{}") if action.type else "x"  # type: ignore[call-overload]
    return [flag] if action.nargs == 0 else [f"{flag}={value}"]


def test_every_option_of_beam_is_decided() -> None:
    known = {flag for action in actions() for flag in action.option_strings}
    decided = [*REFUSED, *NEEDS_RUNNER, *JOB_LABELS, *OURS, *PASSES]
    assert sorted(decided) == sorted(known)


@pytest.mark.parametrize("flag", REFUSED)
def test_what_does_something_else_is_refused(flag: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_flags("convert", [*NEEDED, *words(flag)])
    assert str(raised.value).startswith(f"{flag} ")
    assert REFUSED[flag] in str(raised.value)


@pytest.mark.parametrize("flag", NEEDS_RUNNER)
def test_what_sizes_a_job_elsewhere_needs_a_runner(flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} .*--runner"):
        parse_flags("convert", [*NEEDED, *words(flag)])
    for runner in ("--runner=FlinkRunner", "--runner=FnApiRunner"):
        assert parse_flags("convert", [*NEEDED, runner, *words(flag)])[1] == [runner, *words(flag)]


def test_other_options_pass() -> None:
    given = [word for flag in PASSES for word in words(flag)]
    assert parse_flags("convert", [*NEEDED, *given])[1] == underscored(given)


@pytest.mark.parametrize("word", ["labels.csv", "gs://b/day=1/labels.csv", "cat", "/d=1", "*.csv"])
def test_a_label_file_is_no_label_of_the_job(word: str) -> None:
    for given in ([f"--label={word}"], ["--label", word]):
        with pytest.raises(UsageError) as raised:
            parse_flags("convert", [*NEEDED, *given])
        assert f"did you mean --labels {word}?" in str(raised.value)
        assert "KEY=VALUE" in str(raised.value)


JSON = '{"goog-dataflow-template": "flex"}'


@cases(
    *(("label", label) for label in ("team=vision", "team=", JSON, "팀=비전")),
    *(("labels", label) for label in ("airflow-version=v3-3-2", "team=", JSON)),
)
def test_a_label_of_the_job_is_none_of_ours(flag: str, label: str) -> None:
    """Launchers give labels of the job by the name of our label file."""
    words = [*NEEDED, "--label_file=gs://b/labels.csv", f"--{flag}={label}"]
    flags, rest = parse_flags("convert", words)
    assert flags.labels == "gs://b/labels.csv"
    assert PipelineOptions(rest).view_as(GoogleCloudOptions).labels == [label]


PATHS = ["labels.csv", "day=1/labels.csv", "a=b.csv", "gs://b/day=1/*.csv", "/d=1", "labels"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("flag", ["labels", "label_file"])
def test_paths_are_those_of_the_label_file(flag: str, path: str) -> None:
    flags, rest = parse_flags("convert", [*NEEDED, f"--{flag}={path}"])
    assert (flags.labels, rest) == (path, [])


@cases(
    # Beam's own actions raise what argparse does not catch.
    (["--gcs_custom_audit_entries=x"], "--gcs_custom_audit_entries"),
    (["--beam_services=x"], "--beam_services"),
    (["--labels=a.csv", "--label_file", "b.csv"], "--labels is given twice"),
)
def test_what_cannot_be_parsed_is_one_line(words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_flags("convert", [*NEEDED, *words])


@pytest.mark.parametrize(("word", "says"), [("--dry_run", "`plan`"), ("--label=a.csv", "--labels")])
@pytest.mark.parametrize("command", ["convert", "plan"])
@pytest.mark.usefixtures("no_run")
def test_a_command_refuses_them(command: str, word: str, says: str, right_inputs: Path) -> None:
    """They ran a whole conversion, with labels from folders."""
    before = snapshot(right_inputs)
    run = {"convert": convert, "plan": plan}[command]
    check_ended(run(word, **{**right_flags(right_inputs), "labels": None}), 2, says)
    assert snapshot(right_inputs) == before


@pytest.mark.parametrize(("word", "says"), [("--dry_run", "--dry_run"), ("--labels=a", "KEY=VALU")])
def test_verify_refuses_the_same(word: str, says: str, tmp_path: Path) -> None:
    check_ended(verify(tmp_path, word), 2, says)


@cases(
    (["--direct_num_workers=3"], "--direct_num_workers: give one of them"),
    (["--direct-running-mode", "in_memory"], "--direct-running-mode: give one of them"),
    (["--sdk_worker_parallelism=2"], "--sdk_worker_parallelism: give one of them"),
    (["--runner", "FlinkRunner"], "--runner FlinkRunner: it sets the worker processes of the "
     "default runner, on this machine"),
    (["--runner=PrismRunner"], "--runner PrismRunner: .*"),
)  # fmt: skip
def test_workers_are_decided_once(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^--workers cannot be used with {message}$"):
        parse_flags("convert", [*NEEDED, "--workers=2", *words])
    assert parse_flags("convert", [*NEEDED, *words])[0].workers is None
    local = parse_flags("convert", [*NEEDED, "--workers=2", "--runner=FnApiRunner"])
    assert local[0].workers == 2


def test_the_runners_that_beam_knows_are_those_of_ours() -> None:
    assert {name.lower() for name in RUNNERS} == {*_RUNNER_MAP}


DATAFLOW = "needs --project PROJECT, --temp_location gs://BUCKET/tmp; see docs/dataflow.md"


@cases(
    ("Dataflw", ": unknown runner; did you mean DataflowRunner?"),
    ("flinkk", ": unknown runner; did you mean FlinkRunner?"),
    ("DirectRuner", ": unknown runner; did you mean DirectRunner?"),
    ("Local", f": unknown runner; Beam has {', '.join(RUNNERS)}"),
    # What Dataflow needs is listed at once.
    *((name, f" {DATAFLOW}") for name in ("Dataflow", "dataflowrunner", "DataflowRunner")),
)
def test_a_runner_is_refused_with_what_was_meant(runner: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_beam_flags([f"--runner={runner}", "--region", "us-central1"])
    assert str(caught.value) == f"--runner {runner}{says}"


@cases(
    ["--runner=flink"],
    ["--runner", "FnApiRunner"],
    ["--runner=my.package.Runner"],
    ["--runner=Dataflow", "--project=p"],
    ["--runner=Dataflow", "--dataflow_endpoint=http://localhost:4600"],
    ["--temp_location", "gs://b/t"],
)
def test_other_runners_pass(words: list[str]) -> None:
    check_beam_flags(words)
