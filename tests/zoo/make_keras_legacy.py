"""Makes keras_legacy of tests/golden/keras.tar.xz: narrow models of keras.applications in the .h5 files of Keras before 3, and the
same weights under torchvision's names, which make_keras_families.py makes and holds to both libraries' outputs. Keras writes
all files. Use: python make_keras_legacy.py FOLDER (needs keras, torch, torchvision, h5py, safetensors)

A case is FOLDER/keras_legacy/RULES: whole.h5 (model.save), inside.h5 (the model as a layer of another), weights.h5 (of weights
alone: names end in ':0' there, as those of TensorFlow's variables do, and nothing says what the layers are) and
torch.safetensors."""

import os
import sys

import h5py
import numpy
import torch
from make_keras_families import Twins, keras, rows_of
from safetensors.torch import save_file

from keras.src.legacy.saving.legacy_h5_format import save_weights_to_hdf5_group

CASES = ("keras-efficientnet-b0", "keras-convnext-tiny")


def save_weights(model, path):
    """As save_weights of Keras 2 does, whose variables have names that end in ':0' and whose depthwise kernels are called so."""
    with h5py.File(path + ".tmp", "w") as file:
        save_weights_to_hdf5_group(file, model)
        with h5py.File(path, "w") as out:
            out.attrs["layer_names"] = file.attrs["layer_names"]
            for layer in file.attrs["layer_names"]:
                group = out.create_group(layer)
                names = []
                for name in file[layer].attrs["weight_names"]:
                    to = name.decode() if isinstance(name, bytes) else name
                    depthwise = "DepthwiseConv2D" in type(model.get_layer(layer)).__name__ and to.endswith("kernel")
                    to = (to[: -len("kernel")] + "depthwise_kernel" if depthwise else to) + ":0"
                    names.append(to.encode())
                    group[to] = file[layer][name][()]
                group.attrs["weight_names"] = names
    os.remove(path + ".tmp")


def main():
    for rules in CASES:
        folder = os.path.join(sys.argv[1], "keras_legacy", rules)
        os.makedirs(folder)
        twins = Twins(rules)
        values = rows_of(twins, 5.0)[0][1]
        state = twins.torch_values(values)
        difference, reacts = twins.compare(values, state)
        assert difference < 1e-4 and reacts > 100 * difference, (rules, difference, reacts)
        model = twins.theirs
        model.save(os.path.join(folder, "whole.h5"))
        save_weights(model, os.path.join(folder, "weights.h5"))
        outer = keras.Sequential([keras.layers.Input((twins.size(), twins.size(), 3)), model, keras.layers.Dense(2, name="own")])
        outer.save(os.path.join(folder, "inside.h5"))
        save_file({key: torch.from_numpy(numpy.ascontiguousarray(value)) for key, value in state.items()},
                  os.path.join(folder, "torch.safetensors"))
        print(rules, len(values), "tensors; difference", difference, flush=True)


if __name__ == "__main__":
    main()
