#!/usr/bin/env bash
# Checks that what is installed (tools/install/headers.cmake) is what the compiler reads for the headers that programs
# include, and nothing else; and that nothing of a device's kernels is among it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

installed=$(cmake -DROOT="$PWD" -P tools/install/headers.cmake)
public=(libcore/{core,dist,options,tensorboard}.h libckpt/{ckpt,bridge,c_api,dist,onnx}.h libckpt/format/format.h libckpt/remote/remote.h zoo/*.h zoo/data/*.h zoo/manifest/manifest.h
  zoo/rules/rule_packs.h)
read=$(printf '#include "%s"\n' "${public[@]}" | g++ -std=c++20 -I. -MM -x c++ - | tr -s ' \\' '\n' | grep -E '\.(h|inc)$' | LC_ALL=C sort -u)
if ! diff <(echo "$read") <(LC_ALL=C sort <<<"$installed") >/dev/null; then
  echo "headers: '<' is read and would not be installed, '>' would be installed and nothing reads it:" >&2
  diff <(echo "$read") <(LC_ALL=C sort <<<"$installed") | grep '^[<>]' >&2
  exit 1
fi
internal=$(grep -E '/(cpu|cuda|opaque)/|/raw/|_internal\.h$' <<<"$installed" || true)
[ -z "$internal" ] || { echo "headers: internal, and reached from a public one:" $internal >&2; exit 1; }
echo "headers: $(wc -l <<<"$installed") of $(git ls-files -co --exclude-standard 'libcore/*.h' 'libckpt/*.h' 'zoo/*.h' | wc -l) installed"
