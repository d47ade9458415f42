#!/usr/bin/env bash
# Builds asup on a machine with a GPU, runs the tests that use it, and then tools/gpu_check.py.
#   tools/gpu_check.sh [--quick | --measure] [--only WORDS]
# BUILD says where to (build/gpu), CXX by what (/usr/bin/g++), ASUP_TORCH which torch (python3's), and
# ASUP_TOMLPP_INCLUDE where toml++ is, unless the compiler finds it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${BUILD:-build/gpu}
flags=(-G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${CXX:-/usr/bin/g++}"
       "-DASUP_TORCH=${ASUP_TORCH:-python3}")
[[ -n ${ASUP_TOMLPP_INCLUDE:-} ]] && flags+=("-DASUP_TOMLPP_INCLUDE=$ASUP_TOMLPP_INCLUDE")
unset ASUP_TOMLPP_INCLUDE  # asup refuses variables of such a name that are none of its own
# The conformance of replicas is not tried on a GPU: its ranks are threads, and torch has one thread for
# all backward passes on a GPU, in which the first rank to end would wait for the others.
tests=(sync/sync_test train/train_test)

mkdir -p "$build"
log=$build/gpu_check.log
if ! cmake -S . -B "$build" "${flags[@]}" > "$log" 2>&1 ||
   ! cmake --build "$build" -j "$(nproc)" --target asup_cli "${tests[@]##*/}" >> "$log" 2>&1; then
  tail -40 "$log"
  echo "gpu_check: it does not build; all that was said is in $log" >&2
  exit 1
fi

status=0
for test in "${tests[@]}"; do
  said=$build/${test##*/}.log
  if "$build/tests/$test" > "$said" 2>&1; then
    echo "ok    $test"
  else
    grep '^\[  FAILED' "$said" || tail -5 "$said"
    echo "FAIL  $test"
    status=1
  fi
done
ASUP_PROGRAM=$PWD/$build/asup python3 -u tools/gpu_check.py "$@" || status=1
exit $status
