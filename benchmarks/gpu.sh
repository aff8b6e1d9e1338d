#!/bin/bash
# The tests that need a GPU and the benchmarks on it, straight from the checkout, with nothing to install:
#   benchmarks/gpu.sh [folder for the results]            tests, kernels and the runtime
#   benchmarks/gpu.sh [folder for the results] models     training steps of whole networks
#   benchmarks/gpu.sh [folder for the results] timeline   pictures of ResNet-50: host and device, the first iterations
# Each takes under nine minutes. The table comes last; the tests' own output is in gpu_tests.txt beside the results.
cd "$(dirname "$0")/.." || exit 1
export PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1
export EAGERJIT_CACHE_DIR="${EAGERJIT_CACHE_DIR:-$(mktemp -d)}"
export TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$EAGERJIT_CACHE_DIR/compiled}"
python=${PYTHON:-python3}
output=$(realpath -m "${1:-benchmarks/results}")
mkdir -p "$output"

if ! "$python" -c "from eagerjit.runtime.gpu.devices import platform; assert platform().devices" 2>"$output/gpu_tests.txt"; then
    echo "no GPU: $(tail -n 1 "$output/gpu_tests.txt")"
    exit 1
fi

if [ "${2:-}" = models ]; then
    exec timeout 530 "$python" -m benchmarks gpu_models --output "$output"
fi
if [ "${2:-}" = timeline ]; then
    exec timeout 530 "$python" -m benchmarks.gpu_timeline --output "$output"
fi

# Only files with such tests are read: others import what is not there.
mapfile -t files < <(grep -rl "mark\.gpu" tests --include="test_*.py")
timeout 240 "$python" -m pytest -m gpu -q -p no:cacheprovider "${files[@]}" >"$output/gpu_tests.txt" 2>&1
tests=$?
tail -n 3 "$output/gpu_tests.txt"

timeout 285 "$python" -m benchmarks gpu gpu_kernels --output "$output"
benchmarks=$?

exit $((tests > benchmarks ? tests : benchmarks))
