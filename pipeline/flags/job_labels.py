"""Labels of a Dataflow job, which launchers pass under the name of our `--labels`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# The spelling of a Google Cloud label; a path with neither `.` nor `/` has the same form.
_OF_THE_JOB = re.compile(r"--labels=([a-z][a-z0-9_-]{0,62}=[a-z0-9_-]{0,63}|\{.*\})", re.DOTALL)
# The same for any script, since a label may contain letters of all of them.
_KEY_AND_VALUE = re.compile(r"[^\W\d_][\w-]{0,62}=[\w-]{0,63}")


def job_labels_apart(words: Iterable[str]) -> Iterator[str]:
    """The words of a command line, with job labels renamed to Beam's other name for them.

    Airflow's Beam operator adds `--labels=airflow-version=v3-3-2` to every command, and the
    launcher of a Flex Template `--labels={...}`. Beam treats `--label` the same.

    >>> list(job_labels_apart(["--labels=team=vision", "--labels={}", "--labels=/d/a=b.csv"]))
    ['--label=team=vision', '--label={}', '--labels=/d/a=b.csv']
    """
    for word in words:
        found = _OF_THE_JOB.fullmatch(word)
        yield f"--label={found[1]}" if found else word


def is_job_label(text: str) -> bool:
    """Whether a text is a label of a job: KEY=VALUE, or several of them as JSON.

    >>> is_job_label("team=vision"), is_job_label("labels.csv")
    (True, False)
    """
    is_json = text.startswith("{") and text.endswith("}")
    return is_json or (_KEY_AND_VALUE.fullmatch(text) is not None and text == text.lower())
