#!/usr/bin/env bash
# Builds the fuzz targets of the core with clang and libFuzzer and runs each for a while, as many at a time
# as there are cores. Installs what that takes.
#
#   tools/fuzz.sh [SECONDS [TARGET...]]   default: 20 seconds, all targets
#   ASUP_SKIP_PACKAGES=1                  packages are somebody else's business; without clang, status 77:
#                                         nothing was tried
#   JOBS=N                                how many at a time
#
# What crashes a target is kept in build/fuzz/found/, to be run alone: build/fuzz/tests/fuzz/fuzz_toml FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-20}
shift || true
jobs=${JOBS:-$(nproc)}
packages=(clang-19 libclang-rt-19-dev llvm-19)
cannot=77

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2> /dev/null | grep -qx installed; }

install_packages() {
  local package missing=() as_root=()
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  [[ ${ASUP_SKIP_PACKAGES:-} != 1 ]] || return 1
  echo "==> Packages: installing ${missing[*]}"
  ((EUID == 0)) || as_root=(sudo)
  ((EUID == 0)) || [[ -t 0 ]] || as_root+=(-n) # nobody there to type a password
  "${as_root[@]}" apt-get update -q > /dev/null &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends "${missing[@]}" > /dev/null
}

if ! install_packages; then
  echo "clang with libFuzzer (${packages[*]}) is not here, and cannot be installed." >&2
  exit $cannot
fi
echo "==> Build: build/fuzz"
cmake --preset fuzz --log-level=WARNING > /dev/null
cmake --build --preset fuzz -j "$jobs" --target asup_fuzz_targets

found=build/fuzz/found
mkdir -p "$found"
targets=("$@")
((${#targets[@]} > 0)) ||
  mapfile -t targets < <(find build/fuzz/tests/fuzz -maxdepth 1 -name 'fuzz_*' -type f -printf '%f\n' | sort)

# What is new goes to a folder of its own, which stays for the next time. Memory that one input takes, and
# that all of them together do, is limited: what grows is found.
fuzz() {
  local target=$1 name=${1#fuzz_} kept=build/fuzz/corpus/${1#fuzz_} log=build/fuzz/found/${1#fuzz_}.log status=0
  mkdir -p "$kept"
  "build/fuzz/tests/fuzz/$target" "$kept" "tests/fuzz/corpus/$name" -max_total_time="$seconds" \
    -max_len=16384 -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 \
    -artifact_prefix="$found/$name-" &> "$log" || status=$?
  printf '%-18s %10s runs  %s\n' "$name" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$( ((status == 0)) && echo "nothing found" || echo "FAILED: $log")"
  return "$status"
}
export -f fuzz
export seconds found
export TMPDIR=/dev/shm # no disk is waited for
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-19
echo "==> Fuzzing: ${#targets[@]} targets, $seconds s each"
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz {}'
