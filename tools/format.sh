#!/usr/bin/env bash
# Formats our C++ sources, or with --check names those that are not formatted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=14
formatter=$(command -v "clang-format-$version" || command -v clang-format || true)
if [[ -z $formatter ]] || ! "$formatter" --version | grep -q "version $version\."; then
  echo "format: needs clang-format $version: other versions format differently." >&2
  echo "Install it with: apt-get install clang-format-$version, or: pip install clang-format==14.0.6" >&2
  exit 1
fi

folders=()
for folder in asup tests bench examples; do
  [[ -d $folder ]] && folders+=("$folder")
done
mapfile -d '' files < <(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cpp' \) -print0 | sort -z)

case ${1:-} in
  "")
    "$formatter" -i "${files[@]}"
    echo "format: ${#files[@]} files"
    ;;
  --check)
    bad=$("$formatter" --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):.*-Wclang-format-violations.*/\1/p' | sort -u)
    if [[ -n $bad ]]; then
      printf 'format: these files are not formatted; run: make format\n%s\n' "$bad" >&2
      exit 1
    fi
    echo "format: ${#files[@]} files, all formatted"
    ;;
  *)
    echo "usage: tools/format.sh [--check]" >&2
    exit 2
    ;;
esac
