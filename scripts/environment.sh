# Sourced by the run_*.sh scripts: makes .venv from setup.py when it is missing or out of date.
# It uses uv if available, else pip; packages are byte-compiled, which saves seconds per start,
# unless UV_COMPILE_BYTECODE=0.
# VENV names an existing environment instead, in which nothing is installed.

project="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${VENV:-$project/.venv}"

# The versions of setup.py: on others, TensorFlow and Beam cannot be installed together.
is_supported() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2> /dev/null
}

find_python() {
  local name
  if [ -n "${PYTHON:-}" ]; then
    if is_supported "$PYTHON"; then
      echo "$PYTHON"
      return
    fi
    echo "PYTHON=$PYTHON is not Python 3.11, 3.12 or 3.13 ($("$PYTHON" --version 2>&1 | head -1)): name another" >&2
    return 2
  fi
  for name in python3.11 python3.12 python3.13 python3; do
    if is_supported "$name"; then
      echo "$name"
      return
    fi
  done
  echo "no Python 3.11, 3.12 or 3.13 found (python3: $(python3 --version 2>&1 | head -1)): install one, or name it in PYTHON" >&2
  return 2
}

# make_environment EXTRAS: installs the project with these extras, such as "" or "[test]".
make_environment() {
  local stamp="$venv/.installed" wanted python
  if [ -n "${VENV:-}" ]; then
    return
  fi
  wanted="$1 $(cksum < "$project/setup.py")"
  if [ -f "$stamp" ] && grep -qxF "$wanted" "$stamp"; then
    return
  fi
  if [ ! -d "$venv" ]; then
    python="$(find_python)" || exit 2
  fi
  echo "installing into $venv: about 2 minutes and 2.9 GB ..." >&2
  if command -v uv > /dev/null; then
    [ -d "$venv" ] || uv venv --quiet --python "$python" "$venv"
    UV_COMPILE_BYTECODE="${UV_COMPILE_BYTECODE:-1}" uv pip install --python "$venv/bin/python" -e "$project$1" >&2
  else
    [ -d "$venv" ] || "$python" -m venv "$venv"
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m pip install -e "$project$1" >&2
  fi
  echo "$wanted" >> "$stamp"
}
