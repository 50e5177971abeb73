#!/usr/bin/env bash
# Runs phases of the kit on a GPU machine, beside gpu_kit.tar.xz, which it unpacks. Each phase takes well under ten
# minutes and prints one table; the logs of its steps go to $OUT/logs.tgz as they grow.
# usage: phases.sh facts | test | random | sanitize | bench | load | profile ...   several, one after the other
#        phases.sh only NAME COMMAND ...                                           one command, with its log
set -u
here=$(cd "$(dirname "$0")" && pwd)
W=${GPU_KIT:-$HOME/.cache/ckpt-gpu-kit} OUT=${OUT:-$HOME/.cache/ckpt-gpu-kit-out}
L=$W/logs
mkdir -p "$W" "$OUT" "$L"

# unpack ARCHIVE FOLDER: by tar, or by Python where xz is not installed.
unpack() {
  xz -dc --memlimit=2GiB "$1" 2>/dev/null | tar -x -C "$2" 2>/dev/null ||
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$1" "$2"
}
if [ ! -e "$W/bin/test_gpu" ]; then
  unpack "$here/gpu_kit.tar.xz" "$W"
  mkdir -p "$W/golden"
  for archive in "$W"/etc/*.tar.xz; do unpack "$archive" "$W/golden"; done
fi

# PyTorch's wheels bring cuBLAS, cuDNN and NCCL.
cuda_libraries=$(
  python3 - <<'P' 2>/dev/null
import glob, os, site, sys
folders = []
for base in dict.fromkeys(site.getsitepackages() + [p for p in sys.path if p.endswith("site-packages")]):
    folders += [os.path.dirname(p) for name in ("libcublas.so*", "libcudnn.so.9", "libnccl.so.2", "libnvrtc.so*")
                for p in glob.glob(os.path.join(base, "nvidia", "*", "lib", name))]
print(":".join(dict.fromkeys(folders)))
P
)
ours() {
  LD_LIBRARY_PATH=$W/lib:$cuda_libraries:${LD_LIBRARY_PATH:-} CKPT_BIN_DIR=$W/bin CKPT_GOLDEN_DIR=$W/golden \
    OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 "$@"
}
keep_logs() { tar -C "$W" -czf "$OUT/.logs" logs 2>/dev/null && mv "$OUT/.logs" "$OUT/logs.tgz"; }

table_head() { printf '| step | exit | seconds | result |\n|---|--:|--:|---|\n'; }
# step NAME SECONDS COMMAND...: one row; where it fails, the first lines that say why follow in the row.
step() {
  local name=$1 limit=$2 begin=$SECONDS status=0 said
  shift 2
  ours timeout -k 5 "$limit" env "$@" >"$L/$name.log" 2>&1 || status=$?
  said=$(grep -aE '^golden |  PASSED  |FAILED TEST|ERROR SUMMARY|RACECHECK SUMMARY|SKIPPED.*tests?, listed' "$L/$name.log" | tail -2 | paste -sd';')
  [ $status -eq 0 ] || said+="; $(grep -aE '^FAIL|\[  FAILED  \]|rror|Assertion|Invalid|terminate' "$L/$name.log" | head -6 | cut -c1-200 | paste -sd';')"
  printf '| %s | %s | %s | %s |\n' "$name" "$status" "$((SECONDS - begin))" "${said//|/ }"
}

facts() {
  printf '| fact | |\n|---|---|\n'
  echo "| GPU | $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader | paste -sd';') |"
  echo "| system | $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release), $(ldd --version | head -1), $(nproc) cores |"
  echo "| PyTorch | $(python3 -c 'import torch; print(torch.__version__, "cuDNN", torch.backends.cudnn.version(), "NCCL", torch.cuda.nccl.version())' 2>&1 | tail -1) |"
  echo "| CUDA libraries | ${cuda_libraries:-none found beside PyTorch} |"
  echo "| not found by the loader | $(ours ldd "$W/bin/test_gpu" | grep 'not found' | paste -sd';') |"
  for tool in compute-sanitizer ncu; do echo "| $tool | $(command -v $tool || echo none) |"; done
  echo "| commit | $(cat "$here/commit" 2>/dev/null) |"
}

on_gpu=(CKPT_GOLDEN_DEVICE=cuda:0)
tests() {
  table_head
  step gpu 60 "$W/bin/test_gpu"
  step gpu_two_logical 60 CORE_LOGICAL_DEVICES=2 "$W/bin/test_gpu" &
  step gpu_io 60 "$W/bin/test_gpu_io" &
  step gpu_io_two_logical 60 CORE_LOGICAL_DEVICES=2 "$W/bin/test_gpu_io" &
  step graphed_step 60 "${on_gpu[@]}" "$W/bin/test_graphed_step" &
  wait
  local set
  for set in ops autograd modules optim training; do
    step golden_$set 300 "${on_gpu[@]}" "$W/bin/golden_runtime_$set" &
  done
  # Between processes: as many as there are GPUs, one at least.
  step golden_dist_nccl 300 CKPT_TEST_BACKEND=nccl CKPT_GOLDEN_GPU=1 "$W/bin/golden_dist" &
  step dist_nccl 100 "$W/bin/test_dist_nccl" "--gtest_filter=NcclOnGpus.*" &
  for set in sequences distributions; do step golden_$set 100 "${on_gpu[@]}" "$W/bin/golden_$set" & done
  step golden_chunk_two_logical 300 "${on_gpu[@]}" CORE_LOGICAL_DEVICES=2 "$W/bin/golden_runtime_chunk" &
  step golden_zoo 300 "${on_gpu[@]}" "$W/bin/golden_zoo_models" small &
  step golden_zoo_graphs 300 "${on_gpu[@]}" CKPT_GOLDEN_GRAPH=1 "$W/bin/golden_zoo_models" small &
  wait
  # Without cuDNN: the convolutions of this library.
  cuda_libraries=$(tr : '\n' <<<"$cuda_libraries" | grep -v cudnn | paste -sd:) \
    step modules_without_cudnn 100 "${on_gpu[@]}" "$W/bin/golden_runtime_modules"
}

random() {
  ours timeout 60 "$W/bin/gpu_random_probe" cuda:0 >"$L/random.json" 2>"$L/random.err"
  timeout 100 python3 "$W/etc/random_peer.py" "$L/random.json" 2>&1 | tee "$L/random.md"
}

sanitize() {
  local check="compute-sanitizer --print-limit 20 --error-exitcode 9" kernels= option
  for option in kernel-name kernel-regex filter; do  # only kernels of this library, where this version can be told so
    if compute-sanitizer "--$option" kns=run_ true >/dev/null 2>&1; then kernels="--$option kns=run_"; break; fi
  done
  table_head
  step memcheck_gpu 150 $check --tool memcheck "$W/bin/test_gpu" "--gtest_filter=-*OutOfMemory*:*AnIndexOutOfRange*" &
  step memcheck_steps 240 $check --tool memcheck $kernels "$W/bin/gpu_bench" --once --scale 0.004 &
  local tool
  for tool in racecheck synccheck initcheck; do
    step ${tool}_steps 240 $check --tool $tool $kernels "$W/bin/gpu_bench" --once --scale 0.002 &
  done
  step memcheck_ops 300 "${on_gpu[@]}" $check --tool memcheck "$W/bin/golden_runtime_ops" &
  step memcheck_modules 300 "${on_gpu[@]}" $check --tool memcheck "$W/bin/golden_runtime_modules" &
  step racecheck_modules 300 "${on_gpu[@]}" $check --tool racecheck $kernels "$W/bin/golden_runtime_modules" &
  wait
}

bench() {
  ours timeout 200 "$W/bin/gpu_bench" >"$L/gpu_bench.log" 2>&1
  grep '^{' "$L/gpu_bench.log" >"$L/gpu_bench.jsonl"
  local one
  for one in add_1k add4 linear_fwd mlp_adam lenet_b64 cnn28_fwd_bwd lstm_fwd_bwd gru_fwd_bwd resnet18_fwd_b8 resnet18_train_b4_64 \
    gpt2_tiny adamw_10m move_10k_tensors; do
    ours timeout 12 "$W/bin/runtime_bench" --step $one --device cuda --budget-s 1 2>>"$L/runtime_bench.err"
  done >"$L/runtime_bench.jsonl"
  timeout 220 python3 "$W/etc/gpu_peer.py" "$L/gpu_bench.jsonl" "$W/etc" "$L/runtime_bench.jsonl" 2>"$L/gpu_peer.err" |
    tee "$L/bench.md" "$OUT/bench.md"
}

load() {
  mkdir -p "$W/load"
  KIT_LIBRARY_PATH=$W/lib:$cuda_libraries timeout 300 python3 "$W/etc/load_peer.py" "$W/bin/ckpt_bench" "$W/bin/ckpt" "$W/load" 2>"$L/load.err" |
    tee "$L/load.md" "$OUT/load.md"
  rm -r "$W/load"
}

profile() {
  local one
  printf '| step | what ncu measured |\n|---|---|\n'
  for one in "sdpa forward bf16 64" "softmax bf16" "layer_norm bf16" "sum f32" "add bf16" "conv forward f32 96" "index_add"; do
    ours timeout 60 ncu --clock-control none --kernel-name regex:run_ --launch-count 3 --section SpeedOfLight \
      --section Occupancy --section LaunchStats "$W/bin/gpu_bench" --once --only "$one" >"$L/ncu.log" 2>&1
    cat "$L/ncu.log" >>"$L/ncu.txt"
    echo "| $one | $(grep -aE 'run_|Duration|Throughput|Registers|Theoretical Occ|Achieved Occ|Block Limit' "$L/ncu.log" |
      tr -s ' ' | cut -c1-100 | paste -sd';') |"
  done
}

trap keep_logs EXIT
[ $# -gt 0 ] || { sed -n 4,5p "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    facts | random | sanitize | bench | load | profile) $1 ;;
    test) tests ;;
    only) shift; name=$1; table_head; step "$name" 550 "${@:2}"; tail -60 "$L/$name.log"; break ;;
    *) echo "phases.sh: there is no phase '$1'" >&2; exit 2 ;;
  esac
  keep_logs
  shift
done
