"""What a Dataflow worker does with a job, in two processes: `install`, then `run`.

`install` fetches what the job staged and installs its source distribution into an empty folder.
`run` executes the staged `pipeline.pb` with nothing but that folder and the site packages: `-I -S`
keep out the working directory, PYTHONPATH and .pth files, and with them the source tree, which is
installed editable. The dependencies stand for those of the worker image.

    python -I dataflow_worker.py install JOB.json FOLDER

prints `{"counters": [[namespace, name, value], ...], "modules": {name: file}}`.
"""

import ensurepip
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

SDIST = "workflow.tar.gz"
PIPELINE = "pipeline.pb"
SERVICE = "storage.googleapis.com/"
PACKAGES = ("pipeline", "transforms")
TREE = Path(__file__).parents[2]


def fetch(location: str) -> bytes:
    """An object of the bucket, which the job names as `gs://...` or by the service's host."""
    bucket, _, name = location.removeprefix("gs://").removeprefix(SERVICE).partition("/")
    path = f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media"
    with urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + path, timeout=60) as answer:
        content: bytes = answer.read()
    return content


def fetch_staged(job: dict[str, Any], folder: Path) -> None:
    """Downloads the packages and the graph of a job.

    Raises:
        ValueError: the graph is not the one that was submitted.
    """
    folder.mkdir()
    for package in job["environment"]["workerPools"][0].get("packages", []):
        (folder / package["name"]).write_bytes(fetch(package["location"]))
    options = job["environment"]["sdkPipelineOptions"]["options"]
    graph = fetch(options["pipelineUrl"])
    if hashlib.sha256(graph).hexdigest() != options["pipelineProtoHash"]:
        raise ValueError(f"{options['pipelineUrl']} is not the graph that was submitted")
    (folder / PIPELINE).write_bytes(graph)


def install(sdist: Path, target: Path) -> None:
    """Installs a source distribution without its dependencies; nothing is asked of a registry."""
    # An environment made by uv has no pip; the one that Python brings runs from its wheel.
    wheels = sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
    pip = {"PYTHONPATH": str(wheels[0])} if importlib.util.find_spec("pip") is None else {}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*command, str(sdist)], check=True, cwd=target.parent, env={**os.environ, **pip})


def run(folder: Path) -> dict[str, Any]:
    """Executes the staged graph.

    Raises:
        ImportError: the source tree is within reach, or a staged package is not complete.
    """
    for package in PACKAGES:
        if importlib.util.find_spec(package) is not None:
            raise ImportError(f"{package} can be imported before the staged one is")
    sys.path.insert(0, str(folder / "installed"))

    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability import common_urns, python_urns
    from apache_beam.portability.api import beam_runner_api_pb2
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    graph = beam_runner_api_pb2.Pipeline.FromString((folder / "staged" / PIPELINE).read_bytes())
    for environment in graph.components.environments.values():
        if environment.urn != common_urns.environments.DOCKER.urn:
            raise ValueError(f"Dataflow runs containers, not {environment.urn}")
        environment.urn = python_urns.EMBEDDED_PYTHON
        environment.payload = b""
        del environment.dependencies[:]
    result = FnApiRunner().run_via_runner_api(graph, PipelineOptions([]))
    result.wait_until_finish()
    counters = [
        [counter.key.metric.namespace, counter.key.metric.name, counter.committed]
        for counter in result.metrics().query()["counters"]
    ]
    modules = {
        name: str(module.__file__)
        for name, module in sys.modules.items()
        if name.partition(".")[0] in PACKAGES
    }
    return {"counters": counters, "modules": modules}


def main(command: str, *words: str) -> None:
    """Runs one of the two steps; `install` becomes `run`."""
    if command == "install":
        job, folder = Path(words[0]), Path(words[1])
        fetch_staged(json.loads(job.read_text("utf-8")), folder / "staged")
        if (folder / "staged" / SDIST).exists():
            install(folder / "staged" / SDIST, folder / "installed")
        else:
            # The job of a template: the image has the code.
            for package in PACKAGES:
                shutil.copytree(TREE / package, folder / "installed" / package)
        work = folder / "work"
        work.mkdir()
        os.chdir(work)
        site = sysconfig.get_path("purelib")
        step = [sys.executable, "-I", "-S", __file__, "run", str(folder), site]
        sys.stdout.flush()
        os.execv(sys.executable, step)
    sys.path.append(words[1])
    print(json.dumps(run(Path(words[0]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
