#!/usr/bin/env bash
# Makes the Debian packages twice (the same bytes), asks lintian for errors, and installs them into a fresh Debian, where
# the tour runs; removing them leaves nothing. usage: packages_test.sh WRAPPED.pth [CMAKE_OPTION...]
# Ends with 77, which CTest takes for "skipped", where that cannot be tried.
set -euo pipefail
input=$1
shift
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$repository/tests/support/copied_sources.sh"
sources=$repository/build-packages
build=$sources/build
skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can make a fresh system"
for program in debootstrap lintian cpack; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
[ -f "$input" ] || skip "golden data are not unpacked"
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
debian=$(. /etc/os-release && echo "$VERSION_CODENAME")
root=$scratch/root
debootstrap --variant=minbase "$debian" "$root" >"$scratch/debootstrap.log" 2>&1 ||
  skip "no fresh Debian: $(tail -n 1 "$scratch/debootstrap.log")"

# python3-ckpt is for Debian's own Python; nanobind, which makes it, comes from PyPI.
python=()
if ls /usr/include/python3*/Python.h >/dev/null 2>&1 && /usr/bin/python3 -m venv "$scratch/venv" >/dev/null 2>&1 &&
  "$scratch/venv/bin/pip" -q install nanobind >"$scratch/pip.log" 2>&1; then
  python=(-DCKPT_BUILD_PYTHON=ON -DPython_EXECUTABLE="$scratch/venv/bin/python")
else
  echo "without python3-ckpt: Debian's python3-dev and python3-venv, and a registry of Python packages, make it"
fi
copy_sources "$sources"
cmake -S "$sources" -B "$build" -G Ninja -DCMAKE_INSTALL_PREFIX=/usr -DCKPT_BUILD_TESTS=OFF "${python[@]}" "$@" >"$scratch/configure.log" 2>&1 ||
  { cat "$scratch/configure.log" >&2; exit 1; }
export SOURCE_DATE_EPOCH=1764201600
for time in first second; do
  cmake --build "$build" --target packages >"$scratch/$time.log" || { tail -n 20 "$scratch/$time.log" >&2; exit 1; }
  (cd "$build/packages" && sha256sum ./*.deb) >"$scratch/$time"
done
diff "$scratch/first" "$scratch/second" || { echo "two builds of the packages differ" >&2; exit 1; }
lintian --allow-root --fail-on error "$build"/packages/*.deb

[ ! -f /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
packages=(ckpt libckpt-c1)
[ ${#python[@]} -eq 0 ] || packages+=(python3-ckpt)
for package in "${packages[@]}"; do cp "$build/packages/$package"_*.deb "$root/tmp/"; done
cp "$input" "$root/tmp/"
inside() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
files() { inside find /usr /etc /var/lib/dpkg/info -xdev -name '*ckpt*' | LC_ALL=C sort; }
[ -z "$(files)" ] || { echo "the fresh system has ckpt already" >&2; exit 1; }
inside apt-get update -qq
inside sh -c 'apt-get install -y -qq --no-install-recommends /tmp/*.deb' >"$scratch/install.log" 2>&1 ||
  { tail -n 20 "$scratch/install.log" >&2; exit 1; }
inside sh -c "cd /tmp && cp $(basename "$input") run.pth && ckpt --version && ckpt info run.pth &&
  ckpt strip-prefix run.pth -o plain.pth && ckpt remap --to cpu plain.pth -o cpu.pth && ckpt convert cpu.pth net.ckpt &&
  ckpt verify net.ckpt && ckpt convert net.ckpt net.h5 && ckpt diff cpu.pth net.h5 && ckpt doctor /tmp >/dev/null &&
  ckpt devices >/dev/null && ldconfig -p | grep -q libckpt_c.so.1"
if [ ${#python[@]} -ne 0 ]; then
  inside sh -c "cd /tmp && python3 -m ckpt --version && python3 -c '
import ckpt
fixed = ckpt.open(\"run.pth\").strip_prefix(\"module.\")
fixed.save(\"python.ckpt\")
assert ckpt.verify(\"python.ckpt\").good and len(ckpt.open(\"python.ckpt\")) == len(fixed) > 0'"
fi
inside apt-get purge -y -qq "${packages[@]}" >/dev/null 2>&1
[ -z "$(files)" ] || { echo "left behind:" $(files) >&2; exit 1; }
