#!/bin/bash
# The tests that need a GPU and the benchmarks on it, straight from the checkout, with nothing to install:
#   benchmarks/gpu.sh [folder for the results]            kernels, the runtime, pictures of ResNet-50, tests
#   benchmarks/gpu.sh [folder for the results] models     training steps of whole networks
# Each takes under nine minutes. The tables come last; the tests' own output is in gpu_tests.txt beside the results.
cd "$(dirname "$0")/.." || exit 1
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export EAGERJIT_CACHE_DIR="${EAGERJIT_CACHE_DIR:-$(mktemp -d)}"
export TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$EAGERJIT_CACHE_DIR/compiled}"
[ -w "$HOME" ] || export HOME="$EAGERJIT_CACHE_DIR"
python=${PYTHON:-python3}
output=$(realpath -m "${1:-benchmarks/results}")
mkdir -p "$output"

if ! "$python" -c "from eagerjit.runtime.gpu.devices import platform; assert platform().devices" 2>"$output/gpu_tests.txt"; then
    echo "no GPU: $(tail -n 1 "$output/gpu_tests.txt")"
    exit 1
fi

if [ "${2:-}" = models ]; then
    rm -f "$output/gpu_models.md"
    timeout 535 "$python" -m benchmarks.gpu_all gpu_models --seconds 510 --output "$output"
    status=$?
    cat "$output/gpu_models.md"
    exit $status
fi

# What the pictures need takes a minute to compile: meanwhile benchmarks compile what is theirs.
"$python" -m benchmarks.gpu_timeline --prepare &
preparing=$!

# Tables are written whenever something is known: those of a run that was ended too.
rm -f "$output/gpu_kernels.md" "$output/gpu.md"
timeout 245 "$python" -m benchmarks.gpu_all gpu_kernels gpu --seconds 220 --output "$output"
benchmarks=$?

kill "$preparing" 2>/dev/null  # it is done, or takes too long
timeout 70 "$python" -m benchmarks.gpu_timeline --output "$output"
timeline=$?
[ $timeline = 124 ] && echo "no pictures of ResNet-50: they took too long"

left=$((510 - SECONDS))
timeout -k 5 $((left + 10)) "$python" -m benchmarks.gpu_tests --seconds "$left" --output "$output"
tests=$?

cat "$output/gpu.md" "$output/gpu_kernels.md"
worst=$((tests > benchmarks ? tests : benchmarks))
exit $((worst > timeline ? worst : timeline))
