#!/usr/bin/env bash
# The main job on real data: train LeNet on Fashion-MNIST under DataParallel, save, see why a plain model refuses the file,
# strip the prefix, move it to the CPU, load it plain, go the other way, and resume the run bit for bit.
# usage: bash tools/demo.sh [--quick] [--epochs N] [--keep FOLDER] [--build-only]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
  echo "usage: bash tools/demo.sh [--quick] [--epochs N] [--keep FOLDER] [--build-only]"
  echo "  --quick        the shortest run that still shows everything (2,000 images an epoch)"
  echo "  --epochs N     epochs before the run is interrupted (default 1); one more is resumed"
  echo "  --keep FOLDER  keep the checkpoints and the picture in FOLDER (default: build/demo)"
  echo "  --build-only   install, build the whole tool and sample 01, run nothing"
}

epochs=1
rows=60000
build_only=no
out=$root/build/demo
while [ $# -gt 0 ]; do
  case $1 in
    --quick) rows=2000 ;;
    --epochs | --keep)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      if [ "$1" = --epochs ]; then epochs=$2; else out=$2; fi
      shift
      ;;
    --build-only) build_only=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
[[ $epochs =~ ^[1-9][0-9]*$ ]] || { echo "demo: --epochs wants a whole number from 1" >&2; exit 2; }

install_packages "${build_packages[@]}" "${demo_packages[@]}"
tests=OFF
grep -q 'CKPT_BUILD_TESTS:BOOL=ON' "$root/build/CMakeCache.txt" 2>/dev/null && tests=ON
# In a build folder of its own making the demo leaves out kernels for GPUs where there is no GPU, and compiles the sources
# of a folder as one: together a quarter of the time.
own=()
[ -f "$root/build/CMakeCache.txt" ] || own=(-DCORE_WITH_CUDA=GPU -DCMAKE_UNITY_BUILD=ON)
configure "$root/build" -DCKPT_BUILD_TESTS=$tests "${own[@]}"
if [ $build_only = yes ]; then
  build "$root/build" ckpt_cli ckpt_hdf5 fashion_lenet
  exit 0
fi
# The two programs with what the demo runs of them, in half of the time (tools/demo/CMakeLists.txt).
programs=$root/build/bin/demo
if grep -qs '^BUILD_SHARED_LIBS:BOOL=ON' "$root/build/CMakeCache.txt"; then
  programs=$root/build/bin
  build "$root/build" ckpt_cli fashion_lenet
else
  build "$root/build" demo_ckpt demo_lenet
fi

PATH=$programs:$PATH
mkdir -p "$out"
cd "$out"
rm -f run.ckpt run.pth plain.pth plain_cpu.pth whole.ckpt resumed.ckpt wrapped.pth loss.svg ./*.log

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }
[ -t 1 ] || say() { printf '\n%s\n' "$1"; }
show() {
  echo "\$ $*"
  "$@"
}

export CORE_LOGICAL_DEVICES=${CORE_LOGICAL_DEVICES:-2}
total=$((epochs + 1))

say "1. Train LeNet under DataParallel on $CORE_LOGICAL_DEVICES logical devices, stop after $epochs of $total epochs"
show fashion_lenet train --rows "$rows" --epochs "$epochs" --state run.ckpt --weights run.pth --log run.log

say "2. What was saved: every key begins with module., every tensor sits on cuda:0"
show ckpt ls run.pth

say "3. A plain LeNet refuses it, in PyTorch's words"
echo "\$ fashion_lenet evaluate run.pth --strict --map cpu"
if CORE_LOGICAL_DEVICES= fashion_lenet evaluate run.pth --strict --map cpu; then
  echo "demo: a plain model took keys that begin with module." >&2
  exit 1
fi

say "4. Strip the prefix, move the tags to the CPU"
show ckpt strip-prefix run.pth -o plain.pth
show ckpt remap --to cpu plain.pth -o plain_cpu.pth
show ckpt ls plain_cpu.pth

say "5. Load it plain, without any device, and evaluate: the same accuracy to the last image"
parallel=$(fashion_lenet evaluate run.pth --parallel --strict)
plain=$(CORE_LOGICAL_DEVICES= fashion_lenet evaluate plain_cpu.pth --strict)
echo "DataParallel: $parallel"
echo "plain:        $plain"
[ "$parallel" = "$plain" ] || { echo "demo: the accuracies differ" >&2; exit 1; }

say "6. The other way: a plain file into DataParallel"
show ckpt add-prefix plain_cpu.pth -o wrapped.pth
wrapped=$(fashion_lenet evaluate wrapped.pth --parallel --strict --map cuda:0)
echo "DataParallel: $wrapped"
[ "$wrapped" = "$plain" ] || { echo "demo: the accuracies differ" >&2; exit 1; }

say "7. Resume the interrupted run, and compare with a run that was never interrupted"
show fashion_lenet train --rows "$rows" --epochs "$total" --resume run.ckpt --state resumed.ckpt --log resumed.log
show fashion_lenet train --rows "$rows" --epochs "$total" --state whole.ckpt --log whole.log --svg loss.svg --quiet
cat run.log resumed.log >joined.log
if cmp -s joined.log whole.log; then
  echo "the loss of all $(wc -l <whole.log) steps agrees to the last bit"
else
  echo "demo: the resumed run left the loss curve" >&2
  exit 1
fi
show ckpt diff resumed.ckpt whole.ckpt

say "Done. Loss curve: $out/loss.svg"
[ -x "$root/build/bin/ckpt" ] || echo "To build the whole tool, build/bin/ckpt: cmake --build build --target ckpt_cli"
