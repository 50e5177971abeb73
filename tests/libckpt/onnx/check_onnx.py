#!/usr/bin/env python3
"""Checks the models of a folder with onnx, runs them with onnxruntime, and compares outputs.

    check_onnx.py FOLDER

Beside NAME.onnx lie its inputs (NAME.in0, NAME.in1 ...) and outputs (NAME.out0 ...) at other sizes than those it was
exported with, and of some at further ones (NAME.again.in0 ...): a line with dtype and sizes, then the bytes.
"""
import glob
import os
import sys

import numpy
import onnx
import onnxruntime

TYPES = {"float32": numpy.float32, "int64": numpy.int64, "bool": numpy.bool_}


def tensors(stem, kind):
    found = []
    while os.path.exists(f"{stem}.{kind}{len(found)}"):
        with open(f"{stem}.{kind}{len(found)}", "rb") as file:
            dtype, *sizes = file.readline().decode().split()
            found.append(numpy.frombuffer(file.read(), TYPES[dtype]).reshape([int(size) for size in sizes]))
    return found


def difference(ours, theirs):
    """Relative to the largest value; of whole numbers none at all."""
    if ours.dtype != theirs.dtype:
        return f"{theirs.dtype} in place of {ours.dtype}"
    if ours.shape != theirs.shape:
        return f"sizes {list(theirs.shape)} in place of {list(ours.shape)}"
    if not numpy.isfinite(ours).all() or float(numpy.abs(ours).max()) == 0:
        return "an output of nothing but zeros, or with what is no number"
    if ours.dtype.kind != "f":
        return None if (ours == theirs).all() else "other numbers"
    error = float(numpy.abs(ours - theirs).max() / numpy.abs(ours).max())
    return None if error <= 1e-4 else f"{error:.1e} apart"


def check(path):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    stem = path[: -len(".onnx")]
    problem = compared(session, stem)
    if not problem and os.path.exists(stem + ".again.in0"):
        problem = compared(session, stem + ".again")
    return problem


def compared(session, stem):
    given = {one.name: value for one, value in zip(session.get_inputs(), tensors(stem, "in"))}
    ours, theirs = tensors(stem, "out"), session.run(None, given)
    if not ours or len(ours) != len(theirs):
        return f"{len(theirs)} outputs in place of {len(ours)}"
    found = enumerate(map(difference, ours, theirs))
    return next((f"output {i}: {text}" for i, text in found if text), None)


def main():
    onnxruntime.set_default_logger_severity(3)
    paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx")))
    failed = 0
    for path in paths:
        try:
            problem = check(path)
        except Exception as error:  # of either library: the other models are still to be checked
            problem = str(error)
        if problem:
            failed += 1
            print(f"{os.path.basename(path)}: {problem}")
    print(f"{len(paths) - failed} of {len(paths)} models give the same outputs in onnxruntime {onnxruntime.__version__}")
    return 1 if failed or not paths else 0


sys.exit(main())
