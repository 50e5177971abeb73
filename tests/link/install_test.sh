#!/usr/bin/env bash
# Installs into a scratch folder and builds consumers against it: one with plain g++ and pkg-config that links libckpt
# alone, one in C with libckpt_c.so, one for each component of find_package; manual pages and completions are there. usage: install_test.sh BUILD_FOLDER WRAPPED.pth
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

echo "find_package, with the components that a program names"
build_package() {
  cmake -S "$here/$1" -B "$scratch/$1" -G Ninja -DCMAKE_PREFIX_PATH="$moved" >"$scratch/package.log" 2>&1 &&
    cmake --build "$scratch/$1" >>"$scratch/package.log" 2>&1 || { cat "$scratch/package.log"; exit 1; }
}
moved=$scratch/moved  # the tree can be moved, and names no library of the machine that built it
mv "$scratch/usr" "$moved"
if grep -rnE "$build|$scratch/usr|\"[^\"]*/(lib|lib64)/[^\"]*\.(so|a)\"" "$moved"/lib*/cmake/ckpt/ "$moved"/lib/*/cmake/ckpt/ 2>/dev/null | grep -v '_IMPORT_PREFIX'; then
  echo "the CMake package names paths of this machine" >&2
  exit 1
fi
build_package package
"$scratch/package/trainer" "$scratch/out/net.ckpt"
build_package package_ckpt
rm -f "$scratch"/out/*
timeout 60 "$scratch/package_ckpt/stripper" "$input" "$scratch/out"
if find "$moved" -name 'libckpt_c.so*' | grep -q .; then
  build_package package_c
  "$scratch/package_c/reader" "$input" "$scratch/out/c.safetensors"
fi
if ls /usr/include/gloo/rendezvous/context.h >/dev/null 2>&1; then
  build_package package_dist
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000))
  RANK=1 "$scratch/package_dist/ranks" "$scratch/out/ranks.dcp" &
  RANK=0 "$scratch/package_dist/ranks" "$scratch/out/ranks.dcp" | grep -q '2 ranks'
  wait $!
  "$moved/bin/ckpt" verify -q "$scratch/out/ranks.dcp"
fi

# What BUILD_SHARED_LIBS links: every object can be part of a shared library, and each library names all that it uses.
echo "the archives as shared libraries"
lib=$(dirname "$(find "$moved" -name libcore_base.a)")
export PKG_CONFIG_PATH=$lib/pkgconfig
mkdir "$scratch/shared"
for pair in core_base=base ckpt=ckpt core=core ckpt_bridge=bridge ckpt_remote=remote zoo=zoo ckpt_dist=dist ckpt_dist_bridge=dist-bridge; do
  name=${pair%=*} package=ckpt-${pair#*=}
  [ "$package" != ckpt-ckpt ] || package=ckpt
  own=("$lib/lib$name.a")
  [ "$name" != zoo ] || own+=("$lib/libzoo_keys.a")
  # shellcheck disable=SC2046
  g++ -shared -Wl,--no-undefined -o "$scratch/shared/lib$name.so" -Wl,--whole-archive "${own[@]}" -Wl,--no-whole-archive -L"$scratch/shared" \
    $(pkg-config --libs "$package" | tr ' ' '\n' | grep -vxE -- "-l$name|-lzoo_keys" | sed 's/^-l:libre2\.a$/-lre2/')
done
cat "$here/package/trainer.cpp" >"$scratch/trainer.cpp"
# shellcheck disable=SC2046
g++ -std=c++20 $(pkg-config --cflags ckpt-zoo) "$scratch/trainer.cpp" -o "$scratch/trainer" -L"$scratch/shared" -lzoo -lckpt_bridge -lcore -lckpt -lcore_base
LD_LIBRARY_PATH=$scratch/shared "$scratch/trainer" "$scratch/out/shared.ckpt"
