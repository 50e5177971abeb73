#!/usr/bin/env bash
# Sourced by tools/setup.sh: what a build for another processor needs, from Debian's packages of that processor. They are
# unpacked into a folder and not installed, so nothing of this system changes but the compiler and the emulator.

# cross_sysroot PROCESSOR FOLDER PACKAGE...: unpacks the packages and all that they need into FOLDER.
cross_sysroot() {
  local debian=$1 sysroot=$2
  shift 2
  local wanted="$debian $*"
  [ "$(cat "$sysroot/.packages" 2>/dev/null)" != "$wanted" ] || return 0
  rm -rf "$sysroot"
  mkdir -p "$sysroot"/.apt/{lists/partial,archives/partial}
  : >"$sysroot/.apt/status"
  local apt=(apt-get -qq -y --no-install-recommends -o "APT::Architecture=$debian" -o "APT::Architectures=$debian"
    -o "Dir::State=$sysroot/.apt" -o "Dir::State::status=$sysroot/.apt/status" -o "Dir::Cache=$sysroot/.apt"
    -o Debug::NoLocking=true -o "APT::Sandbox::User=root")
  echo "setup: unpacking Debian's packages for $debian into $sysroot"
  "${apt[@]}" update
  "${apt[@]}" --download-only install "$@" >/dev/null
  local package
  for package in "$sysroot"/.apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$sysroot" --keep-directory-symlink \
      ./lib ./usr/lib ./usr/include ./usr/share/pkgconfig 2>/dev/null || true
  done
  rm -rf "$sysroot/.apt"
  relative_links "$sysroot"
  echo "$wanted" >"$sysroot/.packages"
}

# relative_links FOLDER: links of the system that was unpacked there lead to files of it and not of this one.
relative_links() {
  local link target
  find "$1" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    target=$(readlink "$link")
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$1$target")" "$link"
  done
}

# setup_cross aarch64: compiler, emulator and the libraries of the build, and how to build with them.
setup_cross() {
  if [ "$1" != aarch64 ]; then
    echo "setup: there is no cross build for '$1'; --cross takes aarch64" >&2
    return 2
  fi
  install_packages g++-aarch64-linux-gnu qemu-user-static "${build_packages[@]}" || return 1
  local sysroot=$root/build-aarch64/sysroot libraries=() package
  for package in "${build_packages[@]}" libgtest-dev libgmock-dev; do
    case $package in lib*-dev | *-dev) libraries+=("$package") ;; esac
  done
  cross_sysroot arm64 "$sysroot" libc6-dev libstdc++-12-dev libgcc-12-dev "${libraries[@]}" || return 1
  echo "setup: configure with -DCMAKE_TOOLCHAIN_FILE=$root/tools/install/aarch64.cmake"
}
