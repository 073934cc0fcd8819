#!/usr/bin/env bash
# Makes .venv-airflow, an environment with Airflow for examples/airflow, and prints
# its path. An up-to-date environment is not changed; AIRFLOW_VENV names another folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

requirements="$project/examples/airflow/requirements.txt"
airflow="${AIRFLOW_VENV:-$project/.venv-airflow}"
stamp="$airflow/.installed"
wanted="$(cksum < "$requirements")"

# Checks whether the registry answers; any package will do.
registry_answers() {
  if command -v uv > /dev/null; then
    uv pip compile --quiet --no-cache --no-deps - <<< pip > /dev/null 2>&1
  else
    "$airflow/bin/python" -m pip download --quiet --no-deps --dest "$1" pip > /dev/null 2>&1
  fi
}

install() {
  if command -v uv > /dev/null; then
    uv venv --quiet --clear --python "$(find_python)" "$airflow" &&
      uv pip install --quiet --python "$airflow/bin/python" -r "$requirements"
  else
    "$(find_python)" -m venv --clear "$airflow" &&
      "$airflow/bin/python" -m pip install --quiet --no-compile -r "$requirements"
  fi
}

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  echo "installing Airflow into $airflow ..." >&2
  if ! install; then
    scratch="$(mktemp -d)"
    registry_answers "$scratch" || echo "the package registry is out of reach" >&2
    rm -r "$scratch"
    exit 1
  fi
  echo "$wanted" > "$stamp"
fi
echo "$airflow"
