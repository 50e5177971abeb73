"""Makes keras of tests/golden/keras.tar.xz: weights that Keras saves, and the same under torchvision's names. The narrow VGGs are
built of Keras' own layers as keras.applications builds them; what torchvision's layers make of the weights is held to
Keras' outputs before anything is written. Use: python make_keras.py FOLDER (needs keras, torch, torchvision, safetensors)"""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from keras import layers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torchvision.models.vgg import VGG, make_layers  # noqa: E402

BLOCKS = {"keras-vgg16": (2, 2, 3, 3, 3), "keras-vgg19": (2, 2, 4, 4, 4)}
WIDTH, HIDDEN, CLASSES = 4, 6, 5


def keras_vgg(blocks):
    inputs = x = layers.Input((224, 224, 3))
    for count in blocks:
        for _ in range(count):
            x = layers.Conv2D(WIDTH, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2, 2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(HIDDEN, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def torch_vgg(blocks):
    model = VGG(make_layers([step for count in blocks for step in [WIDTH] * count + ["M"]]), CLASSES)
    model.classifier = torch.nn.Sequential(
        torch.nn.Linear(WIDTH * 49, HIDDEN), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(HIDDEN, CLASSES))
    return model.eval()


def main():
    for name, blocks in BLOCKS.items():
        folder = os.path.join(sys.argv[1], "keras", name)
        os.makedirs(folder)
        random = numpy.random.default_rng(len(blocks) + blocks[-1])
        theirs, ours = keras_vgg(blocks), torch_vgg(blocks)
        modules = [module for module in ours.modules() if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear))]
        weighted = [layer for layer in theirs.layers if layer.weights]
        for layer, module in zip(weighted, modules, strict=True):
            kernel, bias = (random.integers(-64, 65, value.shape).astype("f4") / 128 for value in layer.weights)
            layer.set_weights([kernel, bias])
            if kernel.ndim == 4:
                weight = kernel.transpose(3, 2, 0, 1)
            elif kernel.shape[0] == WIDTH * 49:
                weight = kernel.reshape(7, 7, WIDTH, HIDDEN).transpose(3, 2, 0, 1).reshape(HIDDEN, -1)
            else:
                weight = kernel.T
            with torch.no_grad():
                module.weight.copy_(torch.from_numpy(weight.copy()))
                module.bias.copy_(torch.from_numpy(bias))
        x = random.standard_normal((1, 224, 224, 3)).astype("f4")
        with torch.no_grad():
            wanted = theirs(torch.from_numpy(x), training=False)
            got = ours(torch.from_numpy(x.transpose(0, 3, 1, 2).copy()))
        torch.testing.assert_close(got, wanted.to(got.dtype), rtol=1e-4, atol=1e-4)
        theirs.save_weights(os.path.join(folder, "in.weights.h5"))
        save_file({key: value.clone().contiguous() for key, value in ours.state_dict().items()},
                  os.path.join(folder, "torch.safetensors"))


if __name__ == "__main__":
    main()
