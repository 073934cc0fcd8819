#!/usr/bin/env bash
# Converts images to TFRecords on this machine. Without flags, it draws and converts a small sample.
#   ./run_local.sh
#   ./run_local.sh photos labels.csv out/photos
#   ./run_local.sh show|verify|plan|diff|report|salvage|index|export|help ...
set -euo pipefail
for word in "$@"; do
  case "$word" in
    -h | --help) wants_help=1 ;;
  esac
done
source "$(dirname "${BASH_SOURCE[0]}")/scripts/environment.sh"
if [ -n "${wants_help:-}" ] && [ -z "${VENV:-}" ] && [ ! -f "$venv/.installed" ]; then
  # Help needs no installation, which takes minutes and gigabytes.
  sed -n '/^#!/d; /^[^#]/q; s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  echo "The first run installs into $venv. README.md explains the flags, then --help lists them all."
  exit
fi
make_environment ""

# Flags may name paths from where the user stands; the packages are found wherever that is.
python="$venv/bin/python"
case "${1:-}" in
  convert | plan | show | verify | diff | report | salvage | index | export)
    exec "$python" -m "pipeline.$1" "${@:2}" ;;
  help) exec "$python" -m "pipeline.${2:-convert}" --help "${@:3}" ;;
  ?*) exec "$python" -m pipeline.convert "$@" ;;
esac

cd "$project"
"$python" examples/make_sample.py out/sample-images
"$python" -m pipeline.convert \
  --images 'out/sample-images/images/**/*' --labels out/sample-images/labels.csv \
  --output out/sample --splits train=0.8,validation=0.2 --max_rejected 20%
echo
echo "images   $project/out/sample-images (some are broken on purpose)"
