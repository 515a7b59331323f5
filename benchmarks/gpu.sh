#!/usr/bin/env bash
# gpu.sh [--carry DIR]: all benchmarks on a machine with a CUDA device, in under six minutes and without network. DIR is
# what carry.sh made. Writes benchmarks/results/<machine>-<date>.json and .md; a step that fails or finds no time is
# named there.
#
# A dry run on a CPU: DEVICE=cpu SIZES=256 COMPILED_SIZES= PHOTOS=small bash benchmarks/gpu.sh
set -uo pipefail
cd "$(dirname "$0")/.."
DEVICE=${DEVICE:-cuda}
SIZES=${SIZES-512,256,1024}
COMPILED_SIZES=${COMPILED_SIZES-512}
TILE=${TILE-256} # side of the tiles of one more run; empty: no such run
PHOTOS=${PHOTOS-group,large}
REPEATS=${REPEATS:-5}
BUDGET_S=${BUDGET_S:-350}
RESULTS=${RESULTS:-benchmarks/results}
PYTHON=${PYTHON:-python3}
if [ "${1-}" = --carry ]; then
    export PYTHONPATH="$(cd "$2" && pwd)${PYTHONPATH:+:$PYTHONPATH}"
fi
export PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
"$PYTHON" -c 'import benchmarks.pipeline, modelscope, onnxruntime, retinaface' ||
    { echo "something is missing; see benchmarks/carry.sh" >&2; exit 2; }
steps=$(mktemp -d)
trap 'rm -rf "$steps"' EXIT

step() { # step NAME LIMIT_S MODULE ARGUMENTS...: one benchmark, within its limit and what is left of the budget
    local name=$1 limit=$2 module=$3 left=$((BUDGET_S - SECONDS))
    shift 3
    echo "== $name (${SECONDS} s)"
    if [ "$left" -lt 15 ]; then
        echo "$name: no time was left" | tee -a "$steps/failures.txt"
    elif ! timeout -k 5 "$((limit < left ? limit : left))" "$PYTHON" -m "benchmarks.$module" "$@" \
        --device "$DEVICE" --json "$steps/$name.json"; then
        echo "$name: failed or took longer than $((limit < left ? limit : left)) s" | tee -a "$steps/failures.txt"
    fi
}

HALF=$([ "$DEVICE" = cpu ] && echo fp32 || echo fp16)
step eager-fp32 90 generator --sizes "$SIZES" --batch 1,4 --repeats "$REPEATS"
[ "$HALF" = fp32 ] || step eager-half 90 generator --sizes "$SIZES" --batch 1,4 --precision "$HALF" --repeats "$REPEATS"
[ -z "$COMPILED_SIZES" ] ||
    step compiled-half 150 generator --sizes "$COMPILED_SIZES" --mode compiled --precision "$HALF" --repeats "$REPEATS"
[ -z "$TILE" ] ||
    step tiled 60 generator --sizes "$SIZES" --tile "$TILE" --precision "$HALF" --repeats "$REPEATS"
step photos 90 pipeline --photos "$PHOTOS" --repeats 3
step photo-memory 60 memory --sizes "" --photos "${PHOTOS##*,}" --repeats 1
step startup 60 startup --no-page --no-compile --repeats 2
"$PYTHON" -m benchmarks.collect "$steps" "$RESULTS"
echo "== done after $SECONDS s"
