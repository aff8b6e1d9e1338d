#!/bin/bash
# The tests that need a GPU and the benchmarks on it, straight from the checkout, with nothing to install:
#   benchmarks/gpu.sh [folder for the results] [tests|benchmarks]
# It takes LIMIT seconds, 530 unless given. CACHE is a folder of what is compiled already;
#   python -m benchmarks.gpu_all gpu_kernels gpu_models --compile --cache FOLDER
# fills one, of eagerjit's kernels on any machine with Triton. Without it the script compiles ahead beside the tests.
# The tables come last; the tests' own output is in gpu_tests.txt beside the results.
cd "$(dirname "$0")/.." || exit 1
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
limit=${LIMIT:-530} what=${2:-tests and benchmarks}
cache=$(realpath -m "${CACHE:-$(mktemp -d)}")
export EAGERJIT_CACHE_DIR="$cache/eagerjit" TRITON_CACHE_DIR="$cache/triton" EAGERJIT_CACHE_SIZE=$((4 << 30))
[ -w "$HOME" ] || export HOME="$cache"
python=${PYTHON:-python3}
output=$(realpath -m "${1:-benchmarks/results}")
mkdir -p "$output"

if ! "$python" -c "from eagerjit.runtime.gpu.devices import platform; assert platform().devices" 2>"$output/gpu_tests.txt"; then
    echo "no GPU: $(tail -n 1 "$output/gpu_tests.txt")"
    exit 1
fi
[ -n "$CACHE" ] && "$python" -m benchmarks.gpu_all --moved --cache "$cache"
left() { echo $((limit - SECONDS)); }
tests=0 kernels=0 timeline=0 models=0

# What takes the host's time first: tests, and compiling what is measured afterwards.
ahead=$((limit * (${#CACHE} ? 48 : 30) / 100))
if [[ $what == *benchmarks ]]; then
    "$python" -m benchmarks.gpu_timeline --prepare &
    pictures=$!
    [ -z "$CACHE" ] && "$python" -m benchmarks.gpu_all gpu_kernels gpu_models --compile --seconds $ahead --cache "$cache" &
    compiling=$!
fi
if [[ $what == tests* ]]; then
    [ "$what" = tests ] && ahead=$((limit - 20))
    timeout -k 5 $((ahead + 10)) "$python" -m benchmarks.gpu_tests --seconds $ahead --output "$output"
    tests=$?
fi

# Tables are written whenever something is known: those of a run that was ended too.
if [[ $what == *benchmarks ]]; then
    wait $compiling
    kill "$pictures" 2>/dev/null  # it is done, or takes too long
    rm -f "$output"/gpu_kernels.md "$output"/gpu.md "$output"/gpu_models.md
    "$python" -m benchmarks.gpu_all gpu_kernels gpu --seconds $(($(left) / 3)) --cache "$cache" --output "$output"
    kernels=$?
    timeout 60 "$python" -m benchmarks.gpu_timeline --output "$output"
    timeline=$?
    [ $timeline = 124 ] && echo "no pictures of ResNet-50: they took too long"
    "$python" -m benchmarks.gpu_all gpu_models --seconds $(($(left) - 10)) --cache "$cache" --output "$output"
    models=$?
    cat "$output/gpu.md" "$output/gpu_kernels.md" "$output/gpu_models.md"
fi
exit $((tests | kernels | timeline | models))
