#!/usr/bin/env bash
# Installs what the build needs from Debian packages, then configures and builds.
# Sourced by tools/demo.sh and tests/run.sh; it defines functions and does nothing by itself.
# Started: `bash tools/setup.sh --cross aarch64` gets what a build for another processor needs (tools/install/cross.sh).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(g++ cmake ninja-build pkg-config libhdf5-dev libzstd-dev libxxhash-dev libdeflate-dev libsimdjson-dev libisal-dev nettle-dev
  zlib1g-dev libcli11-dev libre2-dev libtomlplusplus-dev libdnnl-dev libopenblas-dev libpng-dev libjpeg-dev
  libcurl4-openssl-dev libgloo-dev libpcre2-dev libutf8proc-dev libsentencepiece-dev libkissfft-dev
  libeigen3-dev libncurses-dev libsndfile1-dev libsamplerate0-dev)
demo_packages=(dataset-fashion-mnist)
test_packages=(libgtest-dev libgmock-dev xz-utils hdf5-tools mold ccache python3 strace valgrind nginx-light openssl
  libcurl4 abigail-tools python3-pyte libopenmpi-dev openmpi-bin)

# Packages of the list that are not installed, one a line.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
  done
}

# install_packages PACKAGE...: installs what is missing, or says exactly what to install and stops.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: this system has no Debian packages; install the equivalents of: $*" >&2
    return 0
  fi
  local missing
  missing=$(missing_packages "$@")
  [ -z "$missing" ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    # On a terminal sudo may ask for a password; elsewhere it must not.
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      say_what_to_install "no rights to install packages" "$missing"
      return 1
    fi
  fi
  echo "setup: installing from Debian:" $missing
  # shellcheck disable=SC2086
  if ! { "${as_root[@]}" apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends $missing >/dev/null; }; then
    say_what_to_install "the packages could not be installed (offline?)" "$missing"
    return 1
  fi
}

say_what_to_install() {
  echo "setup: $1; run this as root and start again:" >&2
  echo "  apt-get install -y --no-install-recommends" $2 >&2
}

# configure FOLDER CMAKE_OPTION...
configure() {
  local folder=$1
  shift
  # Where ccache is there, clones of this repository share what it keeps, wherever they lie.
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=true CCACHE_SLOPPINESS=pch_defines,time_macros
  if ! cmake -S "$root" -B "$folder" -G Ninja "$@" >"$folder.configure.log" 2>&1; then
    cat "$folder.configure.log" >&2
    return 1
  fi
  rm -f "$folder.configure.log"
}

# build FOLDER TARGET...: quiet unless something is wrong; progress on a terminal.
build() {
  local folder=$1
  shift
  if [ -t 1 ]; then
    cmake --build "$folder" --target "$@"
  else
    local log=$folder/build.log
    echo "setup: building, which takes minutes; what it does is in $log" >&2
    cmake --build "$folder" --target "$@" >"$log" 2>&1 || {
      grep -E -A 12 'error|FAILED' "$log" | head -100 >&2
      return 1
    }
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  source "$root/tools/install/cross.sh"
  [ "${1:-}" = --cross ] && [ $# -eq 2 ] || { echo "usage: bash tools/setup.sh --cross aarch64" >&2; exit 2; }
  setup_cross "$2"
fi
