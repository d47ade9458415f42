#!/usr/bin/env bash
# Builds asup on a machine with a GPU, runs the tests that use it, and then tools/gpu_check.py.
#   ASUP_TOMLPP_INCLUDE=DIR tools/gpu_check.sh [--quick]
# BUILD says where to (build/gpu), CXX by what (/usr/bin/g++), ASUP_TORCH which torch (python3's).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${BUILD:-build/gpu}
flags=(-G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${CXX:-/usr/bin/g++}"
       "-DASUP_TORCH=${ASUP_TORCH:-python3}")
[[ -n ${ASUP_TOMLPP_INCLUDE:-} ]] && flags+=("-DASUP_TOMLPP_INCLUDE=$ASUP_TOMLPP_INCLUDE")
tests=(sync_test averaging_test server_replica_test)

mkdir -p "$build"
log=$build/gpu_check.log
if ! cmake -S . -B "$build" "${flags[@]}" > "$log" 2>&1 ||
   ! cmake --build "$build" -j "$(nproc)" --target asup_cli "${tests[@]}" >> "$log" 2>&1; then
  tail -40 "$log"
  echo "gpu_check: it does not build; all that was said is in $log" >&2
  exit 1
fi

status=0
for test in "${tests[@]}"; do
  if "$build/tests/sync/$test" > "$build/$test.log" 2>&1; then
    echo "ok    $test"
  else
    grep '^\[  FAILED' "$build/$test.log" || tail -5 "$build/$test.log"
    echo "FAIL  $test"
    status=1
  fi
done
ASUP_PROGRAM=$PWD/$build/asup python3 -u tools/gpu_check.py "$@" || status=1
exit $status
