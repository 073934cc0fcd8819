#!/usr/bin/env bash
# Without arguments: ruff, mypy and the quick tests, in as many processes as there are cores.
#
# Arguments go to pytest, which then runs alone and in one process:
#   ./run_tests.sh tests/pipeline/test_show.py     the quick tests of a file
#   ./run_tests.sh -m slow -n 2 --dist loadscope   the slow tests: see CONTRIBUTING.md
set -euo pipefail
for word in "$@"; do
  case "$word" in
    -h | --help)
      sed -n '/^#!/d; /^[^#]/q; s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit
      ;;
  esac
done
source "$(dirname "${BASH_SOURCE[0]}")/scripts/environment.sh"
make_environment "[test]"

cd "$project"
# pytest compiles 300 test modules with its own assertions, and keeps them for the next process.
unset PYTHONDONTWRITEBYTECODE
if [ "$#" -gt 0 ]; then
  exec "$venv/bin/python" -m pytest "$@"
fi

"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check --quiet .
# mypy takes one core for a while; the tests use the other.
mkdir -p build
"$venv/bin/mypy" > build/mypy.txt 2>&1 &
types=$!
# Each process gets whole files, so that their fixtures are made once.
"$venv/bin/python" -m pytest -n logical --maxprocesses 4 --dist loadscope && code=0 || code=$?
wait "$types" || code=1
cat build/mypy.txt
exit "$code"
