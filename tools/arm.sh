#!/usr/bin/env bash
# Cross-builds the core for aarch64 and runs the tests of its arithmetic and of its plans under qemu, so
# that a change made on x86-64 does not break aarch64. Installs what that takes: packages of Debian's
# arm64 architecture beside the machine's own.
#
#   ASUP_SKIP_PACKAGES=1   packages are somebody else's business
#   JOBS=N                 how many compilers at a time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=(kernels/kernels_test collective/collective_plan_test)
packages=(
  cmake ninja-build python3 nlohmann-json3-dev g++-aarch64-linux-gnu qemu-user
  libfmt-dev:arm64 libspdlog-dev:arm64 libssl-dev:arm64 zlib1g-dev:arm64
  libgtest-dev:arm64 libgmock-dev:arm64 libbenchmark-dev:arm64
)

if [[ $(uname -m) == aarch64 ]]; then
  echo "This machine is aarch64: make test covers it."
  exit 0
fi

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2> /dev/null | grep -qx installed; }

install_packages() {
  local package missing=() as_root=()
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "==> Packages for aarch64: all present"
    return
  fi
  echo "==> Packages for aarch64: installing ${missing[*]}"
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" dpkg --add-architecture arm64
  "${as_root[@]}" apt-get update -q > /dev/null
  # Nothing of this machine's own may go to make room.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends --no-remove "${missing[@]}" > /dev/null
}

[[ ${ASUP_SKIP_PACKAGES:-} == 1 ]] || install_packages
echo "==> Build: build/arm"
cmake --preset arm --log-level=WARNING > /dev/null
cmake --build --preset arm -j "${JOBS:-$(nproc)}"
for test in "${tests[@]}"; do
  echo "==> Test: $test, under qemu"
  qemu-aarch64 "build/arm/tests/$test" --gtest_brief=1
done
