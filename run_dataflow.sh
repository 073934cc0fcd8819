#!/usr/bin/env bash
# Converts images to TFRecords on Google Cloud Dataflow; docs/dataflow.md explains every setting.
#   PROJECT=my-project REGION=europe-west4 BUCKET=my-bucket ./run_dataflow.sh \
#     --images 'gs://my-bucket/photos/**/*.jpg' --labels gs://my-bucket/labels.csv \
#     --output gs://my-bucket/datasets/photos
# SDK_IMAGE names an image for the workers (deploy/Dockerfile). All other flags go to
# `python -m pipeline.convert`; a flag that is set here can be given too, and then wins.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/scripts/environment.sh"

fail() {
  echo "run_dataflow.sh: $1" >&2
  exit 2
}

# values_of FLAG WORDS...: every value of a flag in the words, one per line.
values_of() {
  local flag="$1"
  shift
  while [ $# -gt 0 ]; do
    case "$1" in
      "$flag" | "${flag//_/-}") echo "${2:-}" ;;
      "$flag="* | "${flag//_/-}="*) echo "${1#*=}" ;;
    esac
    shift
  done
}

last_of() {
  values_of "$@" | tail -n 1
}

# job_name OUTPUT: the same for the same folder, since Dataflow refuses to run two jobs of one name.
job_name() {
  local folder="${1%/}" name
  name="$(LC_ALL=C tr '[:upper:]' '[:lower:]' <<< "${folder##*/}" | LC_ALL=C tr -cs 'a-z0-9' '-')"
  name="${name#-}"
  name="${name:0:40}"
  name="${name%-}"
  echo "convert${name:+-$name}-$(cksum <<< "$folder" | cut -d ' ' -f 1)"
}

for word in "$@"; do
  case "$word" in
    -h | --help)
      sed -n '/^#!/d; /^[^#]/q; s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit
      ;;
  esac
done

gcp_project="$(last_of --project "$@")"
gcp_project="${gcp_project:-${PROJECT:-}}"
region="$(last_of --region "$@")"
region="${region:-${REGION:-}}"
bucket="${BUCKET:-}"
bucket="${bucket#gs://}"
bucket="${bucket%/}"
temp="$(last_of --temp_location "$@")"
temp="${temp:-${bucket:+gs://$bucket/tmp}}"
output="$(last_of --output "$@")"

missing=""
[ -n "$gcp_project" ] || missing="$missing; set PROJECT or give --project"
[ -n "$region" ] || missing="$missing; set REGION or give --region"
[ -n "$temp" ] || missing="$missing; set BUCKET or give --temp_location"
[ -n "$output" ] || missing="$missing; give --output"
[ -z "$missing" ] || fail "${missing#; }"
for flag in --images --labels --output; do
  while read -r path; do
    case "$path" in
      *://*) ;;
      *) fail "$flag $path is on this machine, out of the workers' reach: give a gs:// path" ;;
    esac
  done < <(values_of "$flag" "$@")
done

make_environment ""

# Beam builds setup.py's sdist and stages it: workers run the code of this folder.
exec "$venv/bin/python" -m pipeline.convert \
  --runner DataflowRunner \
  --project "$gcp_project" \
  --region "$region" \
  --temp_location "$temp" \
  ${bucket:+"--staging_location=gs://$bucket/staging"} \
  --job_name "$(job_name "$output")" \
  --setup_file "$project/setup.py" \
  --no_save_main_session \
  --worker_machine_type n2-standard-4 \
  --disk_size_gb 30 \
  --max_num_workers 8 \
  --number_of_worker_harness_threads 2 \
  ${SDK_IMAGE:+"--sdk_container_image=$SDK_IMAGE"} \
  "$@"
