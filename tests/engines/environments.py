"""Makes what the engines need, once, in `.engines/`: `python -m tests.engines.environments`.

Prism, for a campaign alone, is built with Go. Flink's distribution comes from PyPI, into a folder
of its own; Beam's Flink runner comes from Maven Central. `ENGINES` names another folder.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam

from tests.campaign import CAMPAIGN

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("ENGINES", ROOT / ".engines"))

PRISM_MODULE = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}"
FLINK = "1.19.3"
# The newest for which Maven Central has each of the runner's parts everywhere. A job server and
# the Python workers speak a protocol that does not change with the version.
FLINK_RUNNER = "org.apache.beam:beam-runners-flink-1.19:2.62.0"
JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"

# Seconds: a registry that hangs must not hang the tests.
_TIMEOUT = 540

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>job-server</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies><dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency></dependencies>
</project>
"""


class NotThereError(Exception):
    """A tool is missing or a registry is out of reach; says which, and how to get it."""


def _run(*command: str | Path, cwd: Path, **variables: str) -> None:
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise NotThereError(f"needs {words[0]}: apt-get install golang maven default-jre-headless")
    # The tests' closed proxy does not lead to a registry.
    outer = {name: value for name, value in os.environ.items() if name != "HTTPS_PROXY"}
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**outer, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise NotThereError(f"{words[0]} took more than {_TIMEOUT} s") from None
    if done.returncode:
        raise NotThereError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}")


@contextlib.contextmanager
def _made(name: str, version: str) -> Iterator[tuple[Path, bool]]:
    """The folder of one thing, and whether this version of it was made before.

    Another process that makes it at the same time is waited for, and what it made is taken.
    """
    folder = FOLDER / name
    stamp = folder / "version"

    def is_made() -> bool:
        return stamp.is_file() and stamp.read_text() == version

    if is_made():
        yield folder, True
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_made():
            yield folder, True
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder, False
        stamp.write_text(version)


def prism() -> Path:
    """The Prism binary of Beam's version.

    Raises:
        NotThereError: it cannot be built.
    """
    with _made("prism", PRISM_MODULE) as (folder, is_made):
        if not is_made:
            # It works for seconds: to optimize it takes longer, and so does to collect garbage.
            quick = ("-gcflags=all=-N -l -dwarf=false", "-ldflags=-w")
            _run("go", "install", *quick, PRISM_MODULE, cwd=folder, GOBIN=str(folder), GOGC="400")
        return folder / "prism"


def flink() -> Path:
    """The home of a Flink distribution, with `bin`, `conf` and `lib`; `lib` has Beam's runner, too.

    What is there is loaded once. What a job brings is loaded for each of its steps, and Flink then
    starts new workers for each of them.

    Raises:
        NotThereError: it cannot be installed, or there is no Java.
    """
    if shutil.which("java") is None:
        raise NotThereError("needs java: apt-get install default-jre-headless")
    with _made("flink", f"{FLINK} {FLINK_RUNNER}") as (folder, is_made):
        home = folder / "home"
        if not is_made:
            beam = flink_job_server().parent / "lib"
            packages = folder / "packages"
            # Without what the Python API of Flink needs: only its jars and scripts are used.
            pins = (f"apache-flink=={FLINK}", f"apache-flink-libraries=={FLINK}")
            uv = (sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--target", packages)
            _run(*uv, *pins, cwd=folder)
            installed = packages / "pyflink"
            (home / "lib").mkdir(parents=True)
            for name in ("bin", "conf"):
                (home / name).symlink_to(installed / name)
            for jar in [*installed.glob("lib/*.jar"), *beam.glob("*.jar")]:
                is_flinks = jar.name.startswith(("flink-", "slf4j-"))
                if jar.parent != beam or not is_flinks:
                    (home / "lib" / jar.name).symlink_to(jar)
        return home


def flink_job_server() -> Path:
    """A jar that `java -jar` starts: Beam's job server for Flink.

    Raises:
        NotThereError: it cannot be downloaded.
    """
    with _made("job_server", FLINK_RUNNER) as (folder, is_made):
        jar = folder / "job-server.jar"
        if not is_made:
            (folder / "pom.xml").write_text(_POM.format(*FLINK_RUNNER.split(":")))
            copy = (
                *("dependency:copy-dependencies", "-DincludeScope=runtime"),
                "-DoutputDirectory=lib",
            )
            _run("mvn", "--batch-mode", "--quiet", *copy, cwd=folder)
            names = sorted(f"lib/{path.name}" for path in folder.glob("lib/*.jar"))
            _write_launcher(jar, names)
        return jar


def _write_launcher(jar: Path, names: list[str]) -> None:
    """Writes a jar that only names other jars next to it."""
    # A line of a manifest has 72 bytes, and continues after a space.
    path = "".join(f"\r\n  {name}" for name in names)
    manifest = f"Manifest-Version: 1.0\r\nMain-Class: {JOB_SERVER}\r\nClass-Path: {path}\r\n\r\n"
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", manifest)


def main() -> int:
    """Makes everything, and prints where it is."""
    try:
        for make in (flink, flink_job_server, *([prism] if CAMPAIGN else [])):
            print(make())
    except NotThereError as error:
        print(f"environments: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
