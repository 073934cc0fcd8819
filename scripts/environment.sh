# Sourced by the run_*.sh scripts: makes .venv from setup.py when it is missing or out of date.
# uv is used when there is one, else pip; packages are byte-compiled, which saves seconds a start.
# VENV names an environment of your own instead: it is used as it is, and nothing is installed.

project="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${VENV:-$project/.venv}"

find_python() {
  local name
  for name in "${PYTHON:-}" python3.11 python3.12 python3.10 python3.13 python3; do
    if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  echo "no Python 3.10 or newer found: install one, or name it in PYTHON" >&2
  exit 2
}

# make_environment EXTRAS: installs the project with these extras, such as "" or "[test]".
make_environment() {
  local stamp="$venv/.installed" wanted
  if [ -n "${VENV:-}" ]; then
    return
  fi
  wanted="$1 $(cksum < "$project/setup.py")"
  if [ -f "$stamp" ] && grep -qxF "$wanted" "$stamp"; then
    return
  fi
  echo "installing into $venv ..." >&2
  if command -v uv > /dev/null; then
    [ -d "$venv" ] || uv venv --quiet --python "$(find_python)" "$venv"
    uv pip install --quiet --compile-bytecode --python "$venv/bin/python" -e "$project$1"
  else
    [ -d "$venv" ] || "$(find_python)" -m venv "$venv"
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m pip install --quiet -e "$project$1"
  fi
  echo "$wanted" >> "$stamp"
}
