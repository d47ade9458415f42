#!/usr/bin/env bash
# Installs what asup is built and tested with: Debian packages, and in .venv PyTorch (whose package
# holds libtorch) and TensorBoard. Run it as often as you like: what is there is left alone.
#
#   ASUP_TORCH=...            use this torch instead of .venv: a virtual environment, a python
#                             executable, a torch package or an unpacked libtorch, 2.11 or newer
#   ASUP_SKIP_PACKAGES=1      packages are somebody else's business
#   ASUP_ALLOW_CUDA_WHEEL=1   take the CUDA build of PyTorch even where there is no GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

torch_version=2.13.0
cpu_index=https://download.pytorch.org/whl/cpu
log=$(mktemp)
trap 'rm -f "$log"' EXIT

packages=(
  g++ make cmake ninja-build git python3 python3-venv                              # tools
  libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev     # libraries
  libssl-dev zlib1g-dev libopenmpi-dev libcpp-httplib-dev pkg-config libjpeg-dev libpng-dev libsentencepiece-dev
  libgtest-dev libgmock-dev libbenchmark-dev                                       # tests
  iproute2 openssh-client openssh-server openmpi-bin dataset-fashion-mnist
)
niceties=(ccache mold clang-format-14 chromium) # taken where the system offers them

phase() { echo "==> $1"; SECONDS=0; }
done_in() { echo "    done in $SECONDS s"; }

# fail WHAT NEXT...: what went wrong, the end of the log, and what to do.
fail() {
  echo "setup failed: $1" >&2
  [[ -s $log ]] && tail -n 15 "$log" | sed 's/^/    | /' >&2
  shift
  printf '  %s\n' "$@" >&2
  exit 1
}

have_gpu() { [[ -e /dev/nvidia0 ]] || { command -v nvidia-smi && nvidia-smi -L; } &> /dev/null; }

# ---- Debian packages

# Those of the arguments that are not installed.
missing_of() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2> /dev/null |
    sed -n 's/^installed //p') || true
  printf '%s\n' "$@" | grep -vxF -e "${installed:-none}" || true
}

missing_packages() {
  local package
  missing_of "${packages[@]}"
  for package in $(missing_of "${niceties[@]}"); do
    apt-cache show "$package" &> /dev/null && echo "$package"
  done
  return 0
}

install_packages() {
  local missing as_root=() command
  command -v dpkg-query > /dev/null ||
    fail "this is not Debian or Ubuntu, and the script knows no other system's packages." \
      "Install what corresponds to: ${packages[*]}" "Then run: ASUP_SKIP_PACKAGES=1 make setup"
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    phase "Debian packages: all present"
    return
  fi
  phase "Debian packages: installing ${missing[*]}"
  command="apt-get install -y --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo > /dev/null ||
      fail "installing packages takes root, and there is no sudo." \
        "Have an administrator run: apt-get update && $command" "Then run this again."
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(-n) # nobody there to type a password
  fi
  "${as_root[@]}" apt-get update -q &> "$log" ||
    echo "    the package lists could not be refreshed; going on with those at hand"
  mapfile -t missing < <(missing_packages)
  command="apt-get install -y --no-install-recommends ${missing[*]}"
  # shellcheck disable=SC2086 # the command is words
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $command < /dev/null &> "$log" ||
    fail "apt-get could not install the packages." \
      "See above why; once it is mended, run this again. By hand: sudo $command"
  done_in
}

# ---- PyTorch

check_given_torch() {
  phase "PyTorch: the one ASUP_TORCH names ($ASUP_TORCH)"
  cmake -DASUP_TORCH="$ASUP_TORCH" -P cmake/AsupTorch.cmake &> "$log" ||
    fail "ASUP_TORCH=$ASUP_TORCH is of no use." \
      "Point it at a torch of version 2.11 or newer, or unset it to have one installed in .venv."
  sed -n 's/^-- /    /p' "$log"
}

venv_is_complete() {
  .venv/bin/python - "$torch_version" 2> /dev/null << 'PYTHON'
import sys
from importlib.metadata import version
version("numpy")
sys.exit(version("torch").split("+")[0] != sys.argv[1])
PYTHON
}

pip() { .venv/bin/python -m pip --disable-pip-version-check "$@" < /dev/null; }

# True if pip, left alone, would bring CUDA along. Only resolves; pip before 23.2 would download
# whole wheels to do so, hence the newer one.
would_bring_cuda() {
  local report
  pip install -q --upgrade 'pip>=23.2' &> "$log" || true
  report=$(pip install -q --dry-run --report - "torch==$torch_version" 2> "$log") ||
    fail "pip finds no torch $torch_version." \
      "Is there a network, and a wheel for $(.venv/bin/python --version) on $(uname -m)?" \
      "Or set ASUP_TORCH to a torch you have."
  grep -qE '"name": "nvidia-' <<< "$report"
}

install_torch() {
  if venv_is_complete; then
    phase "PyTorch $torch_version: present in .venv"
    return
  fi
  phase "PyTorch $torch_version: installing into .venv (takes a minute or more)"
  python3 -m venv .venv &> "$log" ||
    fail "python3 could not make .venv." "Is the package python3-venv installed? Then: rm -r .venv; make setup"
  local from=()
  if would_bring_cuda; then
    if have_gpu || [[ ${ASUP_ALLOW_CUDA_WHEEL:-} == 1 ]]; then
      echo "    the CUDA build: a download of several gigabytes"
    else
      echo "    this machine has no NVIDIA GPU: taking the CPU build (200 MB), not CUDA's (gigabytes)"
      echo "    (ASUP_ALLOW_CUDA_WHEEL=1 takes CUDA's; ASUP_TORCH=... a torch you already have)"
      from=(--index-url "$cpu_index")
    fi
  fi
  pip install -q "torch==$torch_version" "${from[@]}" &> "$log" ||
    fail "pip could not install torch $torch_version${from[1]:+ from ${from[1]}}." \
      "If this machine reaches another index with CPU wheels, set PIP_INDEX_URL to it;" \
      "or set ASUP_ALLOW_CUDA_WHEEL=1 to take the CUDA build from your usual index;" \
      "or set ASUP_TORCH to a torch you already have."
  pip install -q numpy &> "$log" || fail "pip could not install numpy." "Is there a network? Then run this again."
  done_in
}

# ---- TensorBoard, which one test reads a run with; without it that test is left out.

install_tensorboard() {
  if .venv/bin/python -c 'from importlib.metadata import version; version("tensorboard")' 2> /dev/null; then
    phase "TensorBoard: present in .venv"
    return
  fi
  phase "TensorBoard: installing into .venv"
  if pip install -q tensorboard &> "$log"; then
    done_in
  else
    tail -n 3 "$log" | sed 's/^/    | /'
    echo "    it could not be installed: the test of what it shows is left out"
  fi
}

if [[ ${ASUP_SKIP_PACKAGES:-} == 1 ]]; then
  phase "Debian packages: left alone, as ASUP_SKIP_PACKAGES asks"
else
  install_packages
fi
if [[ -n ${ASUP_TORCH:-} ]]; then
  check_given_torch
else
  install_torch
  install_tensorboard
fi
