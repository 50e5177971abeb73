#!/usr/bin/env bash
# Installs into a scratch folder and builds consumers against it: one with plain g++ and pkg-config that links libckpt
# alone, one in C with libckpt_c.so, one with find_package that trains; manual pages and completions are there. usage: install_test.sh BUILD_FOLDER WRAPPED.pth
set -euo pipefail
build=$1 input=$2
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[ -f "$input" ] || { echo "skipped: golden data are not unpacked"; exit 77; }
cmake --install "$build" --prefix "$scratch/usr" >"$scratch/install.log"
diff <(cd "$scratch/usr/include" && find . -name '*.h' -o -name '*.inc' | cut -c3- | LC_ALL=C sort) \
  <(cmake -DROOT="$here/../.." -P "$here/../../tools/install/headers.cmake" | LC_ALL=C sort)
export PKG_CONFIG_PATH=$(dirname "$(find "$scratch/usr" -name ckpt.pc)")

echo "plain g++ with libckpt alone"
# shellcheck disable=SC2046
g++ -std=c++20 "$here/consumer.cpp" -o "$scratch/consumer" $(pkg-config --cflags --libs ckpt)
mkdir "$scratch/out"
timeout 60 "$scratch/consumer" "$input" "$scratch/out"
if nm -C "$scratch/consumer" | grep -iE ' (cu[A-Z][a-z]+|cuda|cublas|dnnl|cblas_|openblas)' ||
  ldd "$scratch/consumer" | grep -iE 'cuda|cublas|dnnl|blas|gomp'; then
  echo "the consumer carries a compute library" >&2
  exit 1
fi

echo "the installed program"
"$scratch/usr/bin/ckpt" ls "$scratch/out/plain.ckpt" >/dev/null
if ldd "$scratch/usr/bin/ckpt" | grep -iE 'cuda|cublas|dnnl|blas|gomp'; then
  echo "ckpt carries a compute library" >&2
  exit 1
fi

# The helper program comes along, its sandbox holds, and the installed tool uses this one and no other.
"$scratch/usr/libexec/ckpt/ckpt-hdf5" probe >/dev/null
"$scratch/usr/bin/ckpt" convert -q "$scratch/out/plain.ckpt" "$scratch/out/plain.h5"
"$scratch/usr/bin/ckpt" verify -q "$scratch/out/plain.h5"
if strace -V >/dev/null 2>&1; then
  strace -f -e trace=execve -o "$scratch/trace" "$scratch/usr/bin/ckpt" ls -q "$scratch/out/plain.h5" >/dev/null
  grep -q "$scratch/usr/libexec/ckpt/ckpt-hdf5" "$scratch/trace"
fi

# So does the program that runs models; it alone carries the runtime.
printf 'P2 28 28 1%s' "$(printf ' 1%.0s' $(seq 784))" >"$scratch/white.pgm"
"$scratch/usr/bin/ckpt" zoo run -q mnist_net --random --input "$scratch/white.pgm" | grep -q white.pgm
CORE_LOGICAL_DEVICES=host:2 "$scratch/usr/bin/ckpt" devices --jsonl | grep -q 'cuda:1'
if strace -V >/dev/null 2>&1; then
  strace -f -e trace=execve -o "$scratch/trace" "$scratch/usr/bin/ckpt" devices >/dev/null
  grep -q "$scratch/usr/libexec/ckpt/ckpt-run" "$scratch/trace"
fi

"$scratch/usr/bin/ckpt" doctor "$scratch" >"$scratch/doctor.txt" || { cat "$scratch/doctor.txt"; exit 1; }

echo "plain g++ with remote files"
printf '%s\n' '#include <libckpt/ckpt.h>' '#include <libckpt/remote/remote.h>' 'int main(int, char** argv) {' \
  '  ckpt::enable_remote_files();' '  try { ckpt::open(argv[1]); } catch (const core::Error& e) { std::puts(e.what()); }' '}' >"$scratch/far.cpp"
# shellcheck disable=SC2046
g++ -std=c++20 -include cstdio "$scratch/far.cpp" -o "$scratch/far" $(pkg-config --cflags --libs ckpt-remote)
"$scratch/far" s3://bucket/net.pth | grep -q "'s3://' is not read"
if ldd "$scratch/far" | grep -i curl; then
  echo "libcurl is linked, not opened when it is needed" >&2
  exit 1
fi

if [ -f "$PKG_CONFIG_PATH/ckpt-c.pc" ]; then
  echo "plain C with the shared library"
  # shellcheck disable=SC2046
  gcc -std=c11 -Wall -Wextra -pedantic -Werror "$here/consumer.c" -o "$scratch/consumer_c" $(pkg-config --cflags --libs ckpt-c)
  export LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
  "$scratch/consumer_c" "$input" "$scratch/out/plain.safetensors"
  "$scratch/usr/bin/ckpt" diff "$scratch/out/plain.pth" "$scratch/out/plain.safetensors"
  if nm -D --defined-only "$LD_LIBRARY_PATH/libckpt_c.so" | grep -v ' ckpt_'; then
    echo "libckpt_c.so exports more than the C interface" >&2
    exit 1
  fi
fi

echo "manual pages and completions"
for command in $("$scratch/usr/bin/ckpt" completion bash -- "" | tail -n +2); do
  [ -s "$scratch/usr/share/man/man1/ckpt-$command.1" ] || { echo "no manual page of ckpt $command" >&2; exit 1; }
done
if command -v man >/dev/null; then
  for page in "$scratch"/usr/share/man/man1/*.1; do
    MANPAGER=cat man --warnings -l "$page" >/dev/null 2>"$scratch/man.log"
    [ ! -s "$scratch/man.log" ] || { cat "$scratch/man.log"; exit 1; }
  done
fi
completed=$(cd "$scratch/out" && PATH=$scratch/usr/bin:$PATH bash --norc -c '
  source ../usr/share/bash-completion/completions/ckpt
  compopt() { :; }
  COMP_LINE="ckpt strip-prefix pl" COMP_POINT=${#COMP_LINE}
  _ckpt; echo "${COMPREPLY[*]}"')
case $completed in *plain.pth*) ;; *) echo "completion gives '$completed'" >&2; exit 1 ;; esac

echo "find_package and the runtime"
cmake -S "$here/package" -B "$scratch/package" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/usr" >"$scratch/package.log" ||
  { cat "$scratch/package.log"; exit 1; }
cmake --build "$scratch/package" >"$scratch/package.log" || { cat "$scratch/package.log"; exit 1; }
"$scratch/package/trainer" "$scratch/out/net.ckpt"
