#!/usr/bin/env bash
# Lint, types and the test suite; arguments go to pytest, such as -m fresh or tests/pipeline.
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
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check --quiet .
"$venv/bin/mypy"
exec "$venv/bin/python" -m pytest "$@"
