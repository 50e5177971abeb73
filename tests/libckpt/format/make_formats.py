#!/usr/bin/env python3
"""Makes tests/golden/formats.tar.xz: files that the libraries of other formats write, and a manifest beside each that
says what those libraries read from it. Usage: make_formats.py FOLDER (needs: pip install numpy ml_dtypes onnx flax paddlepaddle joblib)

FOLDER/checkpoints/onnx/CASE.onnx                   by onnx; initialisers in every type and in every place
FOLDER/checkpoints/flax/CASE.msgpack                by flax; every type, plain values, arrays in chunks
FOLDER/checkpoints/pickle/CASE.pkl                  by NumPy; dicts of arrays in four protocols; by joblib
FOLDER/checkpoints/paddle/CASE                      by paddle.save; parameters and an optimizer
FOLDER/checkpoints/FORMAT/CASE.manifest.json        names, types, shapes and SHA-256 of the values, and metadata
"""

import hashlib
import json
import pathlib
import sys

import ml_dtypes
import numpy as np

# What libckpt calls a type where NumPy calls it otherwise. Types of 4 and 2 bits are read as bytes.
NAMES = {"float8_e4m3fn": "float8_e4m3fn", "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}


def tensor_of(name, values):
    values = np.asarray(values)
    dtype = NAMES.get(values.dtype.name, values.dtype.name)
    if values.dtype.name in NAMES and values.dtype.name != dtype:
        values = values.astype(dtype)
    raw = np.ascontiguousarray(values).tobytes()
    return {"path": [name], "name": name, "dtype": dtype, "shape": list(values.shape), "nbytes": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest()}


def write_manifest(folder, file, library, tensors, metadata=None):
    name = folder.name + "/" + file
    manifest = {"manifest_version": 1, "fixture": name, "format": folder.name, "writer": library,
                "expect": {"action": "load", "exit": 0}, "tensors": tensors}
    if metadata is not None:
        manifest["metadata"] = metadata
    (folder / (file + ".manifest.json")).write_text(json.dumps(manifest, indent=1) + "\n")


def values_of(dtype, shape, seed):
    """Values that every type has, in the order of the elements."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    bits = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}.get(dtype.name)
    if bits:
        return rng.integers(*bits, size=shape).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, size=shape).astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.name == "float8_e8m0fnu":
        return rng.integers(0, 255, size=shape).astype(np.uint8).view(dtype)
    return rng.standard_normal(shape).astype(dtype)


def make_onnx(folder):
    import onnx
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper

    library = {"library": "onnx", "version": onnx.__version__}
    kinds = {"float32": (T.FLOAT, np.float32), "float64": (T.DOUBLE, np.float64), "float16": (T.FLOAT16, np.float16),
             "bfloat16": (T.BFLOAT16, ml_dtypes.bfloat16), "e4m3fn": (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
             "e4m3fnuz": (T.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz), "e5m2": (T.FLOAT8E5M2, ml_dtypes.float8_e5m2),
             "e5m2fnuz": (T.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz), "e8m0": (T.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu),
             "int4": (T.INT4, ml_dtypes.int4), "uint4": (T.UINT4, ml_dtypes.uint4), "int2": (T.INT2, ml_dtypes.int2),
             "uint2": (T.UINT2, ml_dtypes.uint2), "bool": (T.BOOL, np.bool_), "int8": (T.INT8, np.int8),
             "uint8": (T.UINT8, np.uint8), "int16": (T.INT16, np.int16), "uint16": (T.UINT16, np.uint16),
             "int32": (T.INT32, np.int32), "uint32": (T.UINT32, np.uint32), "int64": (T.INT64, np.int64),
             "uint64": (T.UINT64, np.uint64), "complex64": (T.COMPLEX64, np.complex64),
             "complex128": (T.COMPLEX128, np.complex128)}
    shapes = [(5,), (3, 4), (), (0, 3), (2, 3, 7)]

    def model(initializers, **more):
        x = helper.make_tensor_value_info("x", T.FLOAT, ["batch", 3, 8])
        y = helper.make_tensor_value_info("y", T.FLOAT, [None, 3, 8])
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y], initializers)
        made = helper.make_model(graph, producer_name="maker", opset_imports=[
            helper.make_opsetid("", 21), helper.make_opsetid("com.example", 1)], **more)
        made.metadata_props.add(key="author", value="somebody")
        return made

    def metadata_of(made):
        out = {"ir_version": str(made.ir_version), "producer_name": "maker", "graph": "net",
               "input x": "float32[batch, 3, 8]", "output y": "float32[?, 3, 8]", "author": "somebody"}
        for opset in made.opset_import:
            out["opset " + (opset.domain or "ai.onnx")] = str(opset.version)
        return out

    def save(name, made, **more):
        onnx.save(made, folder / (name + ".onnx"), **more)
        read = onnx.load(folder / (name + ".onnx"))
        tensors = [tensor_of(t.name, numpy_helper.to_array(t)) for t in read.graph.initializer]
        write_manifest(folder, name + ".onnx", library, tensors, metadata_of(made))

    arrays = [(f"{name}.{i}", kind, values_of(dtype, shape, i)) for name, (kind, dtype) in kinds.items()
              for i, shape in enumerate(shapes)]
    save("raw", model([numpy_helper.from_array(values, name) for name, _, values in arrays]))
    save("numbers", model([helper.make_tensor(name, kind, values.shape, values.flatten()) for name, kind, values in arrays]))
    outside = [numpy_helper.from_array(values_of(dtype, (4, 96), 7), name) for name, (_, dtype) in kinds.items()
               if name not in ("int4", "uint4", "int2", "uint2")]
    copy = [onnx.TensorProto.FromString(t.SerializeToString()) for t in outside]
    save("one_file", model(outside), save_as_external_data=True, all_tensors_to_one_file=True, location="one_file.data",
         size_threshold=0)
    save("many_files", model(copy[:3]), save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    long = values_of(np.int64, (9_000,), 3)
    save("long_numbers", model([helper.make_tensor("long", T.INT64, long.shape, long)]))
    # 4-bit floats: two a byte, which ml_dtypes does not pack; the bytes are what the file has.
    four = helper.make_tensor("four", T.FLOAT4E2M1, (2, 4), values_of(ml_dtypes.float4_e2m1fn, (2, 4), 5).flatten())
    raw = numpy_helper.from_array(numpy_helper.to_array(four), "four")
    made = model([raw])
    onnx.save(made, folder / "four_bits.onnx")
    packed = raw.raw_data
    write_manifest(folder, "four_bits.onnx", library, [
        {"path": ["four"], "name": "four", "dtype": "float4_e2m1fn_x2", "shape": [2, 2], "nbytes": 4,
         "sha256": hashlib.sha256(packed).hexdigest()}], metadata_of(made))


def make_flax(folder):
    import flax
    import flax.serialization
    import jax
    import jax.numpy as jnp

    library = {"library": "flax", "version": flax.__version__}

    def walk(tree, prefix=()):
        if isinstance(tree, dict):
            return [pair for key, value in tree.items() for pair in walk(value, prefix + (str(key),))]
        array = isinstance(tree, (np.ndarray, np.generic, jax.Array))
        return [(".".join(prefix), tree)] if array else []

    def save(name, tree):
        data = flax.serialization.to_bytes(tree)
        (folder / (name + ".msgpack")).write_bytes(data)
        read = flax.serialization.msgpack_restore(data)
        write_manifest(folder, name + ".msgpack", library, [tensor_of(key, value) for key, value in walk(read)])

    kinds = ["float32", "float64", "float16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
             "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
             "float8_e8m0fnu"]
    types = {kind: getattr(ml_dtypes, kind, None) or np.dtype(kind) for kind in kinds}
    save("types", {kind: {str(i): values_of(dtype, shape, i) for i, shape in enumerate([(5,), (3, 4), (), (0, 3), (2, 3, 7)])}
                   for kind, dtype in types.items()})
    save("plain", {"params": {"Dense_0": {"kernel": jnp.ones((3, 4), jnp.bfloat16), "bias": jnp.arange(4.0)}}, "step": 7,
                   "rate": 0.25, "note": "caf\u00e9", "z": 1 + 2j, "scale": np.float32(3), "nothing": None, "on": True,
                   "low": -70_000, "high": 2**63, "raw": b"bytes", "list": [1, "two"], "empty": {}})
    save("many_keys", {f"layer_{i}": np.full((2,), i, np.float32) for i in range(70)})
    old = flax.serialization.MAX_CHUNK_SIZE
    flax.serialization.MAX_CHUNK_SIZE = 64
    save("chunks", {"table": values_of(np.float32, (7, 11), 1), "small": values_of(np.float16, (3,), 2)})
    flax.serialization.MAX_CHUNK_SIZE = old
    tensors = [tensor_of("", values_of(np.float32, (3, 2), 9))]
    (folder / "lone.msgpack").write_bytes(flax.serialization.to_bytes(values_of(np.float32, (3, 2), 9)))
    write_manifest(folder, "lone.msgpack", library, tensors)


def walk_arrays(tree, prefix=()):
    """Arrays by their dotted names, in order."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else []
    if isinstance(tree, np.ndarray):
        return [(".".join(prefix), tree)]
    return [pair for key, value in items for pair in walk_arrays(value, prefix + (str(key),))]


def make_pickles(folder):
    import pickle

    library = {"library": "numpy", "version": np.__version__}
    kinds = ["float32", "float64", "float16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
             "complex64", "complex128"]
    shared = values_of(np.float32, (2, 2), 1)
    tree = {"types": {kind: [values_of(kind, shape, i) for i, shape in enumerate([(5,), (3, 4), (), (0, 3), (2, 3, 7)])]
                      for kind in kinds},
            "fortran": np.asfortranarray(values_of(np.float32, (3, 5, 2), 2)), "big": values_of(np.float64, (3, 4), 3).astype(">f8"),
            "long": np.arange(30_000, dtype=np.float32).reshape(30, 1000), "longer": np.arange(50_000, dtype=np.uint16).view(np.float16), "once": shared,
            "again": (shared, {"lr": 0.1, "steps": 3, "name": "adam", "scalar": np.float32(2), "none": None})}
    for protocol in (2, 3, 4, 5):
        data = pickle.dumps(tree, protocol=protocol)
        if protocol == 2:  # the names of NumPy 1
            data = data.replace(b"numpy._core.", b"numpy.core.")
        name = f"protocol_{protocol}.pkl"
        (folder / name).write_bytes(data)
        write_manifest(folder, name, library, [
            tensor_of(key, value.astype(value.dtype.newbyteorder("="))) for key, value in walk_arrays(pickle.loads(data))])
    make_joblib(folder, tree)


def make_joblib(folder, tree):
    import joblib

    library = {"library": "joblib", "version": joblib.__version__}
    for name, how in (("plain.joblib", {}), ("protocol_2.joblib", {"protocol": 2}), ("zlib.joblib", {"compress": 3}),
                      ("packed.joblib.gz", {})):
        joblib.dump(tree, folder / name, **how)
        write_manifest(folder, name, library, [tensor_of(key, value) for key, value in walk_arrays(joblib.load(folder / name))])


def make_paddle(folder):
    import paddle

    library = {"library": "paddlepaddle", "version": paddle.__version__}
    paddle.seed(0)
    net = paddle.nn.Sequential(paddle.nn.Linear(3, 2), paddle.nn.BatchNorm1D(2), paddle.nn.Linear(2, 700))
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    net(paddle.ones([4, 3])).sum().backward()
    optimizer.step()
    trees = {"net.pdparams": net.state_dict(), "net.pdopt": optimizer.state_dict(),
             "nested.pdparams": {"model": net.state_dict(), "epoch": 3, "mask": paddle.to_tensor([True, False])}}
    for name, tree in trees.items():
        paddle.save(tree, str(folder / name))
        read = paddle.load(str(folder / name), return_numpy=True)
        write_manifest(folder, name, library, [tensor_of(key, value) for key, value in walk_arrays(read)])
        manifest = folder / (name + ".manifest.json")
        manifest.write_text(manifest.read_text().replace('"format": "paddle"', '"format": "pickle"'))


MAKERS = {"onnx": make_onnx, "flax": make_flax, "pickle": make_pickles, "paddle": make_paddle}


def main():
    for name, make in MAKERS.items():
        folder = pathlib.Path(sys.argv[1]) / "checkpoints" / name
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)


main()
