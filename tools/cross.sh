#!/usr/bin/env bash
# Cross-builds the core for a processor that this machine does not have, and runs tests of it under qemu,
# so that a change made on x86-64 does not break aarch64, nor the other way round. Installs what that
# takes: packages of the other architecture beside the machine's own.
#
#   tools/cross.sh arm|x86 [all]   all: everything that runs under qemu; else the tests of its arithmetic
#                                  and of its plans
#   ASUP_SKIP_PACKAGES=1           packages are somebody else's business; without them, status 77: nothing
#                                  was tried
#   JOBS=N                         how many compilers at a time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  arm) processor=aarch64 debian=arm64 compiler=g++-aarch64-linux-gnu ;;
  x86) processor=x86_64 debian=amd64 compiler=g++-x86-64-linux-gnu ;;
  *)
    echo "tools/cross.sh arm|x86 [all]" >&2
    exit 2
    ;;
esac
preset=$1
cannot=77
if [[ $(uname -m) == "$processor" ]]; then
  echo "This machine is $processor: make test covers it."
  exit 0
fi

tests=(kernels/kernels_test collective/collective_plan_test)
[[ ${2:-} != all ]] || tests+=(net/membership_test net/link_test)
packages=(
  cmake ninja-build python3 nlohmann-json3-dev libtomlplusplus-dev "$compiler" qemu-user
  libfmt-dev:"$debian" libspdlog-dev:"$debian" libssl-dev:"$debian" zlib1g-dev:"$debian"
  libgtest-dev:"$debian" libgmock-dev:"$debian" libbenchmark-dev:"$debian"
)

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2> /dev/null | grep -qx installed; }

install_packages() {
  local package missing=() as_root=()
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "==> Packages for $processor: all present"
    return
  fi
  echo "==> Packages for $processor: installing ${missing[*]}"
  ((EUID == 0)) || as_root=(sudo)
  ((EUID == 0)) || [[ -t 0 ]] || as_root+=(-n) # nobody there to type a password
  # Nothing of this machine's own may go to make room.
  "${as_root[@]}" dpkg --add-architecture "$debian" &&
    "${as_root[@]}" apt-get update -q > /dev/null &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends --no-remove "${missing[@]}" > /dev/null
}

if [[ ${ASUP_SKIP_PACKAGES:-} != 1 ]] && ! install_packages; then
  echo "Packages for $processor cannot be installed here: see above." >&2
  exit $cannot
fi
echo "==> Build: build/$preset"
cmake --preset "$preset" --log-level=WARNING > /dev/null
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" --target "${tests[@]##*/}"
for test in "${tests[@]}"; do
  echo "==> Test: $test, under qemu"
  "qemu-$processor" "build/$preset/tests/$test" --gtest_brief=1
done
