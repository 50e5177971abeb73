#!/usr/bin/env bash
# Has onnx check, and onnxruntime run, the models that the program writes.
# usage: run_onnx.sh PROGRAM [FOLDER]
# CKPT_ONNX_PYTHON is a Python with onnx and onnxruntime; without it an environment is made in FOLDER. Ends with 77, which
# CTest takes for "skipped", where there is no registry of packages.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$1
folder=${2:-$(dirname "$program")/onnx_models_run}
skip() {
  echo "skipped: $1"
  exit 77
}

mkdir -p "$folder"
python=${CKPT_ONNX_PYTHON:-$folder/venv/bin/python}
if ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
  [ -z "${CKPT_ONNX_PYTHON:-}" ] || skip "$CKPT_ONNX_PYTHON has no onnx or no onnxruntime"
  python3 -m venv --clear "$folder/venv" >/dev/null 2>&1 || skip "python3 has no venv"
  "$folder/venv/bin/pip" -q install onnx onnxruntime >"$folder/pip.log" 2>&1 ||
    skip "no registry of Python packages: $(tail -n 1 "$folder/pip.log")"
fi
for opset in 17 18; do
  rm -rf "$folder/models"
  mkdir "$folder/models"
  "$program" "$folder/models" "$opset"
  "$python" "$here/check_onnx.py" "$folder/models"
done
rm -rf "$folder/models"
